//! The bus over the simulated network.

use std::{
    any::Any,
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::{sleep, timeout},
};
use turmoil::net::{TcpListener, TcpStream};
use wharf_model::{Bus, BusSubscriber, Stored};

use super::store::{HOST, REPLY_TIMEOUT, StoreClient};

const PORT: u16 = 2;
/// Heartbeat interval of the bus.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);

type BusMessage = (Arc<str>, Arc<[u8]>);

/// The bus at the host of the store: sends messages to all connections.
#[derive(Clone, Default)]
pub struct BusHub(Arc<Mutex<Vec<UnboundedSender<BusMessage>>>>);

impl BusHub {
    fn publish(&self, message: &BusMessage) {
        lock(&self.0).retain(|subscriber| subscriber.send(message.clone()).is_ok());
    }

    /// Accepts connections of nodes while the host runs.
    pub async fn serve(self) -> turmoil::Result {
        let listener = TcpListener::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), PORT)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(self.clone().serve_subscriber(stream));
        }
    }

    async fn serve_subscriber(self, mut stream: TcpStream) -> io::Result<()> {
        let (subscriber, mut said) = unbounded_channel();
        lock(&self.0).push(subscriber);
        stream.write_u8(0).await?;
        loop {
            match timeout(HEARTBEAT_INTERVAL, said.recv()).await {
                Err(_) => stream.write_u8(0).await?,
                Ok(None) => return Ok(()),
                Ok(Some((topic, message))) => {
                    let (of_topic, of_message) = (length(topic.as_bytes())?, length(&message)?);
                    let head = [&[1, of_topic, of_message], topic.as_bytes(), &message].concat();
                    stream.write_all(&head).await?;
                }
            }
        }
    }
}

/// Topics and messages of tasks are short.
fn length(bytes: &[u8]) -> io::Result<u8> {
    u8::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The bus as a node accesses it.
#[derive(Clone)]
pub struct RemoteBus {
    hub: BusHub,
    store_client: StoreClient,
    subscribers: Arc<Mutex<RemoteSubscribers>>,
}

#[derive(Default)]
struct RemoteSubscribers {
    next: u64,
    all: BTreeMap<u64, (String, Arc<dyn BusSubscriber>)>,
}

impl RemoteBus {
    pub(super) fn new(hub: BusHub, store_client: StoreClient) -> Self {
        RemoteBus { hub, store_client, subscribers: Arc::default() }
    }

    /// Receives messages while the node runs.
    pub async fn listen(self) {
        loop {
            let _ = self.connected().await;
            sleep(HEARTBEAT_INTERVAL / 4).await;
        }
    }

    async fn connected(&self) -> io::Result<()> {
        let mut stream = timeout(REPLY_TIMEOUT, TcpStream::connect((HOST, PORT))).await??;
        timeout(REPLY_TIMEOUT, stream.read_u8()).await??;
        self.deliver(|_, subscriber| subscriber.missed());
        loop {
            if timeout(HEARTBEAT_INTERVAL * 3, stream.read_u8()).await?? == 0 {
                continue;
            }
            // The rest was sent with the mark, and is lost with it or not at all.
            let mut topic =
                vec![0; usize::from(timeout(HEARTBEAT_INTERVAL * 3, stream.read_u8()).await??)];
            let mut message =
                vec![0; usize::from(timeout(HEARTBEAT_INTERVAL * 3, stream.read_u8()).await??)];
            timeout(HEARTBEAT_INTERVAL * 3, stream.read_exact(&mut topic)).await??;
            timeout(HEARTBEAT_INTERVAL * 3, stream.read_exact(&mut message)).await??;
            let topic = String::from_utf8_lossy(&topic).into_owned();
            self.deliver(|wanted, subscriber| {
                if wanted == topic {
                    subscriber.receive(&topic, &message);
                }
            });
        }
    }

    fn deliver(&self, tell: impl Fn(&str, &Arc<dyn BusSubscriber>)) {
        let subscribers: Vec<_> = lock(&self.subscribers).all.values().cloned().collect();
        subscribers.iter().for_each(|(topic, subscriber)| tell(topic, subscriber));
    }
}

impl Bus for RemoteBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        let (hub, said) = (self.hub.clone(), (topic.into(), message.into()));
        self.store_client.there(move || {
            hub.publish(&said);
            Box::pin(std::future::ready(Ok(())))
        })
    }

    fn subscribe(
        &self,
        topic: &str,
        subscriber: Arc<dyn BusSubscriber>,
    ) -> Box<dyn Any + Send + Sync> {
        let mut subscribers = lock(&self.subscribers);
        subscribers.next += 1;
        let number = subscribers.next;
        subscribers.all.insert(number, (topic.into(), subscriber));
        Box::new(SubscriptionGuard { number, subscribers: self.subscribers.clone() })
    }
}

struct SubscriptionGuard {
    number: u64,
    subscribers: Arc<Mutex<RemoteSubscribers>>,
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        let gone = lock(&self.subscribers).all.remove(&self.number);
        drop(gone);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
