//! Responses that are no answer: their reason and what is said of them.

use std::time::Duration;

use aforo::engine::openai::failure::{Failure, Headers, TooLong, is_gpu_lost, is_memory, of_status};
use aforo::protocol::FailureReason;

fn plain(status: u16, body: &str) -> Failure {
    of_status(status, Headers::default(), body.as_bytes())
}

#[test]
fn statuses_and_their_reasons() {
    for (status, reason) in [
        (301, FailureReason::Rejected),
        (400, FailureReason::Rejected),
        (401, FailureReason::Rejected),
        (404, FailureReason::Rejected),
        (429, FailureReason::Rejected),
        (500, FailureReason::Engine),
        (503, FailureReason::Engine),
        (200, FailureReason::Engine),
        (204, FailureReason::Engine),
    ] {
        let failure = plain(status, r#"{"error":{"message":"what it says"}}"#);
        assert_eq!(failure.reason, reason, "{status}");
        assert_eq!((failure.retry_after, failure.too_long), (None, None));
        if status >= 400 {
            assert_eq!(failure.text, format!("status {status}: what it says"));
        }
    }
    assert_eq!(plain(502, "").text, "status 502");
}

#[test]
fn a_redirect_names_its_target() {
    let headers = Headers { location: Some("https://login.example/\r\nx"), ..Headers::default() };
    let failure = of_status(302, headers, b"<html>moved</html>");
    assert_eq!(failure.reason, FailureReason::Rejected);
    assert_eq!(failure.text, "status 302, a redirect to https://login.example/ x, which is not followed");
}

#[test]
fn a_busy_server_says_when_to_come_back() {
    let headers = Headers { retry_after: Some("7"), ..Headers::default() };
    let failure = of_status(429, headers, b"slow down");
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(failure.text, "retry after 7 s, status 429: slow down");
}

#[test]
fn messages_of_all_shapes() {
    for body in [
        r#"{"error":{"message":"x y","type":"t"}}"#,
        r#"{"error":"x y"}"#,
        r#"{"object":"error","message":"x y"}"#,
        r#"{"detail":"x y"}"#,
        r#"{"detail":[{"loc":["body"],"msg":"x y"}]}"#,
        r#"{"message":"x y"}"#,
        "x\ny",
    ] {
        assert_eq!(plain(400, body).text, "status 400: x y", "{body}");
    }
    assert!(plain(400, &"x".repeat(5000)).text.chars().count() <= 300);
}

#[test]
fn html_instead_of_json() {
    let page = "<html><head><title>Sign in</title></head></html>";
    let headers = Headers { content_type: Some("text/html; charset=utf-8"), ..Headers::default() };
    let failure = of_status(200, headers, page.as_bytes());
    assert_eq!(failure.reason, FailureReason::Engine);
    assert_eq!(failure.text, "answered with an HTML page, title: Sign in");
    assert_eq!(plain(503, page).text, "status 503: an HTML page, title: Sign in");
    let headers = Headers { content_type: Some("text/plain"), ..Headers::default() };
    assert_eq!(of_status(200, headers, b"hello").text, "answered with text/plain: hello");
}

#[test]
fn credentials_are_never_shown() {
    let body = r#"{"error":{"message":"bad header Authorization: Bearer sk-s3cret in request"}}"#;
    let failure = plain(401, body);
    assert!(!failure.text.contains("s3cret") && failure.text.contains("in request"), "{}", failure.text);
}

#[test]
fn memory_texts_of_engines() {
    for text in [
        "CUDA out of memory. Tried to allocate 300.00 GiB.",
        "torch.OutOfMemoryError: Allocation on device",
        "CUDA error: out of memory",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144 MiB on device 0: cudaMalloc failed: out of memory",
        "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 1",
        "decode: failed to find free space in the KV cache, retrying with smaller batch size",
        "ValueError: No available memory for the cache blocks.",
        "CUDA driver error: CUDA_ERROR_OUT_OF_MEMORY",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "model requires more system memory (4.1 GiB) than is available (3.1 GiB)",
    ] {
        assert!(is_memory(text.as_bytes()), "{text}");
        assert_eq!(plain(500, text).reason, FailureReason::Memory, "{text}");
        assert_eq!(plain(400, text).reason, FailureReason::Memory, "{text}");
    }
    for text in [
        "memory",
        "GPU KV cache size: 1,000 tokens",
        "Model loading took 0.25 GiB memory",
        "Context size has been exceeded.",
        "request (6031 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "KV cache dtype fp8 is not supported",
    ] {
        assert!(!is_memory(text.as_bytes()), "{text}");
    }
}

#[test]
fn texts_of_a_lost_gpu() {
    for text in [
        "Unable to determine the device handle for GPU0000:01:00.0: GPU is lost. Reboot the system to recover this GPU",
        "NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus.",
        "timed out waiting for llama runner to start: CUDA error:uncorrectable ECC error encountered",
        "Triton Error [CUDA]: CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA error: uncorrectable NVLink error detected during the execution",
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "HIP error: an illegal memory access was encountered",
        "CUDA error: unspecified launch failure",
        "CUDA error: device-side assert triggered",
    ] {
        assert!(is_gpu_lost(text.as_bytes()), "{text}");
        assert_eq!(plain(500, text).reason, FailureReason::Engine, "{text}");
    }
    for text in [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "CUDA error: out of memory",
        "CUDA error",
        "CUDA error: invalid argument",
        "CUDA error: no kernel image is available for execution on the device",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "correctable ECC errors: 3",
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "the connection is lost",
    ] {
        assert!(!is_gpu_lost(text.as_bytes()), "{text}");
    }
}

#[test]
fn sizes_of_a_request_that_is_too_long() {
    for (text, prompt, limit) in [
        (
            "This model's maximum context length is 8192 tokens. However, you requested 5 output tokens and your prompt \
          contains at least 8188 input tokens, for a total of at least 8193 tokens.",
            Some(8188),
            8192,
        ),
        (
            "max_tokens=4000 cannot be greater than max_model_len=2048. Please request fewer output tokens.",
            None,
            2048,
        ),
        ("max_tokens=9 cannot be greater than max_model_len=max_total_tokens=8192.", None, 8192),
        (
            "request (6031 tokens) exceeds the available context size (4096 tokens), try increasing it",
            Some(6031),
            4096,
        ),
        (
            "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            Some(9000),
            8192,
        ),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens", Some(4000), 4096),
    ] {
        let body = serde_json::json!({ "error": { "message": text } }).to_string();
        assert_eq!(plain(400, &body).too_long, Some(TooLong { prompt, limit }), "{text}");
    }
    assert_eq!(plain(400, "temperature must be non-negative, got -1.0").too_long, None);
}
