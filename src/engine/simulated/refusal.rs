//! Error bodies, in vLLM's shape.

use hyper::StatusCode;
use serde_json::json;

/// What `PyTorch` says when the card is full.
pub(super) const CUDA_OUT_OF_MEMORY: &str = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total \
    capacity of 79.25 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process has 78.12 GiB memory \
    in use. Of the allocated memory 76.40 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but \
    unallocated.";

/// What vLLM says of one request whose generation failed. The engine goes on; one that does not says so in other words.
pub(super) const GENERATION_FAILED: &str = "Internal server error";

/// A response with an error status.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    message: String,
    kind: &'static str,
    parameter: Option<String>,
}

impl Refusal {
    /// 400 for a value that the engine cannot serve.
    pub(super) fn bad_request(parameter: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            kind: "BadRequestError",
            parameter: parameter.map(str::to_owned),
        }
    }

    /// 400 for a body that is not of the right form; `place` is the field, or the offset in the text.
    pub(super) fn invalid(place: &str, kind: &str, message: &str) -> Self {
        let message = format!(
            "1 validation error:\n  {{'type': '{kind}', 'loc': 'body.{place}', 'msg': '{message}', 'input': '<dict of 0 items>'}}"
        );
        Self {
            status: StatusCode::BAD_REQUEST,
            message,
            kind: "Bad Request",
            parameter: Some(format!("body.{place}")),
        }
    }

    /// 404 for a model that is not served.
    pub(super) fn unknown_model(model: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            message: format!("The model `{model}` does not exist. Valid aliases: simulated."),
            kind: "NotFoundError",
            parameter: Some("model".to_owned()),
        }
    }

    /// A failure of the engine itself.
    pub(super) fn failure(status: StatusCode, message: impl Into<String>) -> Self {
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "RateLimitError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
            status if status.is_client_error() => "BadRequestError",
            _ => "InternalServerError",
        };
        Self { status, message: message.into(), kind, parameter: None }
    }

    /// 500 with an out-of-memory text.
    pub(super) fn out_of_memory() -> Self {
        Self::failure(StatusCode::INTERNAL_SERVER_ERROR, CUDA_OUT_OF_MEMORY)
    }

    /// The JSON body.
    pub(super) fn body(&self) -> String {
        json!({ "error": {
            "message": self.message,
            "type": self.kind,
            "param": self.parameter,
            "code": self.status.as_u16(),
        }})
        .to_string()
    }
}
