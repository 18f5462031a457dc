//! The bus, over the simulated network.

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

use super::store::{HOST, PATIENCE, Way};

const PORT: u16 = 2;
/// How often the bus shows that it is there.
const BEAT: Duration = Duration::from_millis(500);

type Said = (Arc<str>, Arc<[u8]>);

/// The bus where the store is: tells all who are connected.
#[derive(Clone, Default)]
pub struct BusHub(Arc<Mutex<Vec<UnboundedSender<Said>>>>);

impl BusHub {
    fn say(&self, said: &Said) {
        lock(&self.0).retain(|ear| ear.send(said.clone()).is_ok());
    }

    /// Lets nodes listen, for as long as the host runs.
    pub async fn serve(self) -> turmoil::Result {
        let listener = TcpListener::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), PORT)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(self.clone().tell(stream));
        }
    }

    async fn tell(self, mut stream: TcpStream) -> io::Result<()> {
        let (ear, mut said) = unbounded_channel();
        lock(&self.0).push(ear);
        stream.write_u8(0).await?;
        loop {
            match timeout(BEAT, said.recv()).await {
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

/// The bus as a node reaches it.
#[derive(Clone)]
pub struct RemoteBus {
    hub: BusHub,
    way: Way,
    ears: Arc<Mutex<Ears>>,
}

#[derive(Default)]
struct Ears {
    next: u64,
    all: BTreeMap<u64, (String, Arc<dyn BusSubscriber>)>,
}

impl RemoteBus {
    pub(super) fn new(hub: BusHub, way: Way) -> Self {
        RemoteBus { hub, way, ears: Arc::default() }
    }

    /// Hears what is said, for as long as the node runs.
    pub async fn listen(self) {
        loop {
            let _ = self.connected().await;
            sleep(BEAT / 4).await;
        }
    }

    async fn connected(&self) -> io::Result<()> {
        let mut stream = timeout(PATIENCE, TcpStream::connect((HOST, PORT))).await??;
        timeout(PATIENCE, stream.read_u8()).await??;
        self.heard(|_, ear| ear.missed());
        loop {
            if timeout(BEAT * 3, stream.read_u8()).await?? == 0 {
                continue;
            }
            // The rest was sent with the mark, and is lost with it or not at all.
            let mut topic = vec![0; usize::from(timeout(BEAT * 3, stream.read_u8()).await??)];
            let mut message = vec![0; usize::from(timeout(BEAT * 3, stream.read_u8()).await??)];
            timeout(BEAT * 3, stream.read_exact(&mut topic)).await??;
            timeout(BEAT * 3, stream.read_exact(&mut message)).await??;
            let topic = String::from_utf8_lossy(&topic).into_owned();
            self.heard(|wanted, ear| {
                if wanted == topic {
                    ear.hear(&topic, &message);
                }
            });
        }
    }

    fn heard(&self, tell: impl Fn(&str, &Arc<dyn BusSubscriber>)) {
        let ears: Vec<_> = lock(&self.ears).all.values().cloned().collect();
        ears.iter().for_each(|(topic, ear)| tell(topic, ear));
    }
}

impl Bus for RemoteBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        let (hub, said) = (self.hub.clone(), (topic.into(), message.into()));
        self.way.there(move || {
            hub.say(&said);
            Box::pin(std::future::ready(Ok(())))
        })
    }

    fn subscribe(&self, topic: &str, ear: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync> {
        let mut ears = lock(&self.ears);
        ears.next += 1;
        let number = ears.next;
        ears.all.insert(number, (topic.into(), ear));
        Box::new(Place { number, ears: self.ears.clone() })
    }
}

struct Place {
    number: u64,
    ears: Arc<Mutex<Ears>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let gone = lock(&self.ears).all.remove(&self.number);
        drop(gone);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
