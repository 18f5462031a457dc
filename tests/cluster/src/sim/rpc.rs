//! Remote procedure calls over the simulated network.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use turmoil::net::{TcpListener, TcpStream};

/// Carries requests to a host and its replies back. Only their numbers are sent, over one
/// connection each: that is what the network delays, holds and loses.
pub struct RpcNetwork<Q, A>(Arc<Mutex<PendingCalls<Q, A>>>);

struct PendingCalls<Q, A> {
    next: u64,
    questions: HashMap<u64, Q>,
    answers: HashMap<u64, A>,
}

impl<Q, A> Clone for RpcNetwork<Q, A> {
    fn clone(&self) -> Self {
        RpcNetwork(self.0.clone())
    }
}

impl<Q, A> Default for RpcNetwork<Q, A> {
    fn default() -> Self {
        let letters = PendingCalls { next: 0, questions: HashMap::new(), answers: HashMap::new() };
        RpcNetwork(Arc::new(Mutex::new(letters)))
    }
}

impl<Q: Send + 'static, A: Send + 'static> RpcNetwork<Q, A> {
    /// Sends a request to a host. Without a reply, it is unknown whether the request arrived.
    pub async fn ask(&self, to: (&str, u16), question: Q, patience: Duration) -> io::Result<A> {
        let number = {
            let mut letters = self.letters();
            letters.next += 1;
            let number = letters.next;
            letters.questions.insert(number, question);
            number
        };
        let asked = timeout(patience, async {
            let mut stream = TcpStream::connect(to).await?;
            stream.write_u64(number).await?;
            stream.read_u64().await
        });
        let answered = asked.await.map_err(io::Error::from).flatten();
        let mut letters = self.letters();
        letters.questions.remove(&number);
        let answer = letters.answers.remove(&number);
        answered.and(answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }

    /// Answers requests at this port while the host runs.
    pub async fn serve<F, Fut>(&self, port: u16, answer: F) -> turmoil::Result
    where
        F: Fn(Q) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = A> + Send + 'static,
    {
        let listener = TcpListener::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            let (network, answer) = (self.clone(), answer.clone());
            tokio::spawn(async move { network.answer(stream, answer).await });
        }
    }

    async fn answer<F, Fut>(&self, mut stream: TcpStream, answer: F) -> io::Result<()>
    where
        F: Fn(Q) -> Fut,
        Fut: Future<Output = A>,
    {
        let number = stream.read_u64().await?;
        let question = self.letters().questions.remove(&number);
        // The caller has given up.
        let Some(question) = question else { return Ok(()) };
        let answer = answer(question).await;
        self.letters().answers.insert(number, answer);
        stream.write_u64(number).await?;
        // The other side closes: a connection that is dropped first may overtake its data.
        stream.read_u8().await.map(drop)
    }

    fn letters(&self) -> MutexGuard<'_, PendingCalls<Q, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
