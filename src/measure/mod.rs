//! How a pass is taken: the load, its live counts, and the record of each request.

mod halt;
mod limits;
mod live;
mod load;
mod record;
mod trouble;
mod vigil;

pub use halt::Halt;
pub use limits::{OpenFilesError, raise_open_files};
pub use live::{Live, LiveCounts};
pub use load::{Capture, Load, LoadError, Phase, PhaseEnd, Sink, Work};
pub use record::{EngineTimes, FieldVerdict, RequestRecord, Times, TokenSource, Tokens};
pub use trouble::Trouble;
