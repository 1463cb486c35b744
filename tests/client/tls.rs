//! TLS: what fails, and that its handshake is in no measured time.

use std::fs;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use aforo::engine::Stamp;
use aforo::engine::openai::Limits;
use aforo::protocol::FailureReason::{Connection, Engine, Timeout};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::asking::{Client, PATIENT, assert_failed};
use crate::binary::{Site, journal, route};
use crate::server::{Peer, Received, Server};
use crate::wire::{answer, page};

/// A server's configuration for `localhost`, and the certificate of the authority that vouches for it.
fn authority() -> (Arc<ServerConfig>, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let leaf =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![leaf.der().clone()], private);
    (Arc::new(config.unwrap()), certificate)
}

fn localhost(server: &Server) -> String {
    format!("https://localhost:{}/v1", server.address().port())
}

type Secured = StreamOwned<ServerConnection, std::net::TcpStream>;

fn secured(peer: &Peer, config: &Arc<ServerConfig>) -> Secured {
    StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), peer.stream())
}

/// The next request without its body's meaning; `None` at the end.
fn request(stream: &mut Secured) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end + 4].to_vec()).unwrap();
        let request = Received { head, body: bytes[end + 4..].to_vec() };
        let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
        if request.body.len() == length {
            return Some(request);
        }
    }
}

#[test]
fn tls_to_a_server_without_it() {
    let server = Server::start(|peer| {
        peer.head();
        peer.send(page("400 Bad Request", "", "not a request"));
    });
    let failed = Client::new(&server.base_url().replace("http:", "https:")).ask(PATIENT);
    assert_failed(&failed, Connection, &["TLS", &server.address().to_string()]);
    assert_eq!(failed.exchange.sent, None);
}

#[test]
fn no_tls_to_a_server_with_it() {
    let (config, _) = authority();
    let server = Server::start(move |peer| drop(secured(peer, &config).read(&mut [0; 1])));
    let failed = Client::new(&server.base_url()).ask(PATIENT);
    // The alert that the server answers with is not HTTP; where its closing is faster, that is seen.
    let (reason, _) = failed.failure().unwrap();
    assert!([Engine, Connection].contains(&reason), "{:?}", failed.failure());
}

#[test]
fn a_certificate_that_nobody_vouches_for() {
    let (config, _) = authority();
    let server = Server::start(move |peer| drop(secured(peer, &config).read(&mut [0; 1])));
    let failed = Client::new(&localhost(&server)).ask(PATIENT);
    assert_failed(&failed, Connection, &["TLS", "localhost", "certificate"]);
}

#[test]
fn a_handshake_that_never_ends() {
    let server = Server::start(Peer::hold);
    let limits = Limits { whole: Duration::from_millis(150), ..PATIENT };
    let failed = Client::new(&server.base_url().replace("http:", "https:")).ask(limits);
    assert_failed(&failed, Timeout, &["no connection to", "within 150ms"]);
    assert_eq!(failed.exchange.sent, None);
}

/// A whole run, because the authority that is trusted is the environment's.
#[test]
fn f75_the_handshake_lies_before_the_request_and_is_recorded_apart() {
    let (config, certificate) = authority();
    let (stamps, moments) = mpsc::channel();
    let server = Server::start(move |peer| {
        // No connection can be open before this.
        let begun = Stamp::now();
        let mut stream = secured(peer, &config);
        while let Some(request) = request(&mut stream) {
            if let Some(response) = route(&request) {
                stream.write_all(response.as_bytes()).unwrap();
                continue;
            }
            stamps.send(begun.nanos()).unwrap();
            let closing = answer("4").replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
            stream.write_all(closing.as_bytes()).unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            return;
        }
    });
    let site = Site::new(&localhost(&server), 5, "");
    let trusted = site.path().join("authority.pem");
    fs::write(&trusted, certificate).unwrap();
    site.aforo().env("SSL_CERT_FILE", &trusted).assert().success();

    let requests = journal(&site, "measurement");
    let begun: Vec<u64> = moments.try_iter().collect();
    // The probe has the first connection.
    assert_eq!((requests.len(), begun.len()), (5, 6));
    for (index, (request, begun)) in requests.iter().zip(&begun[1..]).enumerate() {
        let stamp = |name: &str| request["times"][name].as_u64().unwrap();
        assert!(*begun < stamp("sent") && stamp("sent") < stamp("first_token"));
        // The first is opened before the phase begins, each later one when its request is due.
        assert_eq!(index == 0, *begun < stamp("scheduled"));
        assert_eq!(index == 0, request["connected_in_s"].is_null());
        assert_eq!(request["resent"], false);
    }
}
