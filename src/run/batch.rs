//! The `OpenAI` batch format, as batch services and vLLM's `run-batch` write it: `custom_id`, `response`, `error`.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::outputs::{ReadOutput, RequestFailure, id_text};
use crate::engine::openai::failure::{self, Failure};
use crate::protocol::FailureReason;

/// An output as a line of the format. What is not known is left out.
pub fn line(output: &ReadOutput, model: &str) -> Value {
    let error = output.failure.as_ref().map(|f| json!({ "code": f.reason.word(), "message": f.text }));
    let response =
        output.failure.is_none().then(|| json!({ "status_code": 200, "body": body(output, model) }));
    json!({ "custom_id": output.document, "response": response, "error": error })
}

fn body(output: &ReadOutput, model: &str) -> Value {
    let mut message = json!({ "role": "assistant", "content": output.text });
    if !output.reasoning.is_empty() {
        message["reasoning"] = output.reasoning.as_str().into();
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": output.finish });
    let mut body = json!({ "object": "chat.completion", "model": model, "choices": [choice] });
    if let Some((input, out)) = output.tokens {
        body["usage"] =
            json!({ "prompt_tokens": input, "completion_tokens": out, "total_tokens": input + out });
    }
    body
}

/// Reads a line of the format.
pub(super) fn read(value: &Value) -> Result<ReadOutput, String> {
    let body = &value["response"]["body"];
    let choice = &body["choices"][0];
    let usage = &body["usage"];
    let reasoning = ["reasoning", "reasoning_content"].iter().find_map(|key| choice["message"][key].as_str());
    Ok(ReadOutput {
        document: value.get("custom_id").and_then(id_text).ok_or("no usable \"custom_id\"")?,
        text: text(choice),
        reasoning: reasoning.unwrap_or_default().to_owned(),
        finish: choice["finish_reason"].as_str().map(str::to_owned),
        tokens: usage["prompt_tokens"].as_u64().zip(usage["completion_tokens"].as_u64()),
        failure: failed(value, choice),
    })
}

/// What is judged, as in a run: the content, else the arguments of the tool calls, else a refusal.
fn text(choice: &Value) -> String {
    let message = &choice["message"];
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls: Vec<_> = calls.filter_map(|call| call["function"]["arguments"].as_str()).collect();
    let plain = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    [plain(&message["content"]), plain(&choice["text"]), calls.join("\n"), plain(&message["refusal"])]
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

/// Why there is no answer to judge: an error, a status that is no success, or no choice at all.
fn failed(value: &Value, choice: &Value) -> Option<RequestFailure> {
    let response = &value["response"];
    let status = response["status_code"].as_u64().map(|status| u16::try_from(status).unwrap_or(u16::MAX));
    let error = value.get("error").filter(|error| !error.is_null());
    if error.is_none() && status.is_none_or(|status| (200..=299).contains(&status)) && choice.is_object() {
        // As in a run: an engine that gave an answer up has not given one.
        let gave_up = choice["finish_reason"].as_str().filter(|reason| matches!(*reason, "abort" | "error"));
        return gave_up.map(|reason| RequestFailure {
            reason: FailureReason::Engine,
            text: format!("the engine gave the answer up: finish reason {reason}"),
        });
    }
    if let Some(own) = error.and_then(own_failure) {
        return Some(own);
    }
    let said = error.unwrap_or(&response["body"]).to_string();
    let Failure { reason, text, .. } = match status {
        Some(status) => failure::of_status(status, failure::Headers::default(), said.as_bytes()),
        None => failure::of_error(said.as_bytes()),
    };
    Some(RequestFailure { reason, text })
}

/// A failure that [`line`] wrote comes back word by word, so that its verdict does too.
fn own_failure(error: &Value) -> Option<RequestFailure> {
    let reason = FailureReason::deserialize(&error["code"]).ok()?;
    Some(RequestFailure { reason, text: error["message"].as_str()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(message: &Value, finish: &str) -> ReadOutput {
        let body = json!({ "choices": [{ "message": message, "finish_reason": finish }] });
        read(&json!({ "custom_id": 7, "response": { "status_code": 200, "body": body }, "error": null }))
            .unwrap()
    }

    #[test]
    fn an_answer_that_was_cut_in_its_reasoning_is_truncated_and_no_engine_failure() {
        let cut = answer(&json!({ "content": null, "reasoning": "let me" }), "length");
        assert_eq!((cut.document.as_str(), cut.text.as_str(), cut.failure.as_ref()), ("7", "", None));
        assert!(cut.truncated());
    }

    #[test]
    fn tool_calls_and_refusals_are_judged_as_in_a_run() {
        let call = json!({ "function": { "name": "f", "arguments": "{\"a\":1}" } });
        assert_eq!(answer(&json!({ "content": null, "tool_calls": [call] }), "tool_calls").text, "{\"a\":1}");
        assert_eq!(answer(&json!({ "content": "", "refusal": "no" }), "stop").text, "no");
    }

    #[test]
    fn errors_keep_their_reason_with_and_without_a_status() {
        let reason = |value: Value| read(&value).unwrap().failure.unwrap().reason;
        let refused = json!({ "custom_id": "a", "response": { "status_code": 400, "body": null }, "error": { "error": { "message": "max_tokens" } } });
        assert_eq!(reason(refused), FailureReason::Rejected);
        let broken = json!({ "custom_id": "a", "response": { "status_code": 500, "body": { "message": "CUDA out of memory" } } });
        assert_eq!(reason(broken), FailureReason::Memory);
        let expired = json!({ "custom_id": "a", "response": null, "error": { "code": "batch_expired", "message": "too late" } });
        let failure = read(&expired).unwrap().failure.unwrap();
        assert_eq!((failure.reason, failure.text.as_str()), (FailureReason::Engine, "too late"));
        assert_eq!(reason(json!({ "custom_id": "a" })), FailureReason::Engine);
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let output = ReadOutput {
            document: "a".to_owned(),
            text: "{}".to_owned(),
            reasoning: "hm".to_owned(),
            finish: Some("length".to_owned()),
            tokens: Some((3, 4)),
            failure: None,
        };
        assert_eq!(read(&line(&output, "m")).unwrap(), output);
        let text = "y".repeat(500);
        let failure = Some(RequestFailure { reason: FailureReason::Cancelled, text });
        let failed = ReadOutput { document: "b".to_owned(), failure, ..ReadOutput::default() };
        assert_eq!(read(&line(&failed, "m")).unwrap(), failed);
    }

    #[test]
    fn a_line_without_an_id_is_refused() {
        assert!(read(&json!({ "custom_id": null, "response": null })).is_err());
    }
}
