//! A process without free file descriptors logs the shortage, keeps serving, and recovers. A single
//! test, because it lowers the limit of its process.

use std::{os::fd::AsRawFd, sync::Arc, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tracing::Level;
use wharf_model::{BoxFuture, Deadlines, Implementation, Outbox, Outcome, Reply, Request, Service};
use wharf_testbed::LogCatcher;
use wharf_transport::{
    ServerContext, Shutdown,
    server::{
        http::{Http, HttpService, serve},
        tcp::{self, Exposure},
    },
};
use wharf_wire::ServerProtocol;

const PATIENCE: Duration = Duration::from_secs(60);

struct NowService;

impl Service for NowService {
    fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
        Box::pin(async { Reply::Discover(Box::default()).into() })
    }
}

async fn status(stream: &mut TcpStream) -> u16 {
    stream.write_all(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.expect("patience").unwrap());
    }
    String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_shortage_of_descriptors_is_logged_and_reported() {
    let log = LogCatcher::on_all_threads(Level::ERROR);
    for (over_tcp, advice) in [(false, "`HttpLimits::connections`"), (true, "clients")] {
        let host = ServerContext::new(
            Arc::new(ServerProtocol::new(Implementation::new("toy", "1"))),
            NowService,
        )
        .deadlines(Deadlines::NONE);
        let (host, shutdown) = (Arc::new(host), Shutdown::new());
        let service = HttpService::new(host.clone(), Http::new().health(), shutdown.clone());
        let (listener, lines) = tokio::join!(
            TcpListener::bind("127.0.0.1:0"),
            tcp::bind("127.0.0.1:0", Exposure::Loopback)
        );
        let (listener, lines) = (listener.unwrap(), lines.unwrap());
        let http = listener.local_addr().unwrap();
        let crowded = if over_tcp { lines.local_addr().unwrap() } else { http };
        tokio::spawn(serve(service, listener));
        tokio::spawn(tcp::serve(host, lines, 1024, shutdown.clone()));
        let seen = log.lines().len();
        let logged = || log.lines().split_off(seen);
        // Existing connections are still served.
        let mut known = TcpStream::connect(http).await.unwrap();
        assert_eq!(status(&mut known).await, 200);

        // The connections wait to be accepted, because the server is not polled before this is done. A
        // few of them fit.
        let before = getrlimit(Resource::Nofile);
        let connect = |_| std::net::TcpStream::connect(crowded).unwrap();
        let others: Vec<_> = (0..40).map(connect).collect();
        let last = others.iter().map(AsRawFd::as_raw_fd).max().unwrap();
        let current = Some(u64::try_from(last).unwrap() + 5);
        setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
        let is_logged = async {
            while logged().is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, is_logged).await.expect("a line in the log");
        assert_eq!(status(&mut known).await, 503);
        // Accepting is retried, and the error is not logged each time.
        sleep(Duration::from_millis(500)).await;
        let lines = logged();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("ulimit -n") && lines[0].contains(advice), "{lines:?}");
        assert_eq!(status(&mut known).await, 503);

        drop(others);
        setrlimit(Resource::Nofile, before).unwrap();
        let mut newcomer = TcpStream::connect(http).await.unwrap();
        status(&mut newcomer).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
        let mut newcomer = TcpStream::connect(http).await.unwrap();
        assert_eq!(status(&mut newcomer).await, 200);
        shutdown.stop();
    }
}
