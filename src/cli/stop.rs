//! `aforo stop`: ends a run in order, keeping all that it has.

use super::exit::{CliError, Exit};
use super::print::say;
use super::which::{Wanted, which};
use super::{StopArgs, foreground};
use crate::run::control::{Message, Viewer};
use crate::run::decision::{Choice, Decision};
use crate::run::desk::Answer;
use crate::run::event::Event;

pub(super) fn execute(args: &StopArgs) -> Result<Exit, CliError> {
    let folder = which(args.run.as_deref(), &args.runs, Wanted::Running)?.folder;
    let choice = if args.after_pass { Choice::StopAfterPass } else { Choice::Stop };
    let path = folder.path().display().to_string();
    let answer = foreground::runtime()?.block_on(async {
        let viewer = Viewer::connect(folder.path()).await.map_err(CliError::failed)?;
        let from = viewer.hello().next_seq;
        let (mut events, remote) = viewer.follow(from).await.map_err(CliError::failed)?;
        let decision = Decision::new(choice, args.reason.clone());
        // The answer and the events come over one connection: it is read while the answer is waited for.
        let ended = tokio::spawn(async move {
            while let Some(Ok(message)) = events.next().await {
                if matches!(&message, Message::Line(line) if matches!(line.event, Event::RunEnded { .. })) {
                    return;
                }
            }
        });
        let answer = remote.decide(decision).await;
        if choice == Choice::Stop && answer == Answer::Accepted {
            ended.await.map_err(CliError::failed)?;
        }
        Ok::<_, CliError>(answer)
    })?;
    match answer {
        Answer::Accepted if choice == Choice::Stop => {
            say(&format!("stopped; `aforo resume {path}` goes on"));
            Ok(Exit::Done)
        }
        Answer::Accepted => {
            say("it ends when this pass is over");
            Ok(Exit::Done)
        }
        Answer::Refused { why } => Err(CliError::WrongUse(format!("not stopped: {why}"))),
    }
}
