//! A client as a service for others: a proxy.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use wharf_model::{
    Asks, BoxFuture, Deadlines, Error, ErrorKind, Event, Exchange, Filter, InputRequired,
    LiveFilter, LogLevel, Method, Notification, Outbox, Outcome, Page, PageBody, Peer, Reply,
    Request, RequestBuilder, Scope, Service, ToolInfo,
};

use crate::{
    Caller, Link, asks, engine,
    spec::{Retry, Spec},
    wait,
};

/// A client as a service. What its back asks goes to its front, where the front can be asked
/// while a call waits.
pub(crate) struct Relay {
    caller: Caller,
}

impl Relay {
    pub(crate) fn new(caller: Caller) -> Self {
        Relay { caller }
    }
}

impl Service for Relay {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let link = self.caller.link();
        let asks_here = request.asks == Asks::Deliver && request.method.info().may_suspend;
        match request.method {
            Method::ListTools if link.mirrors() => {
                let (caller, state) =
                    (self.caller.clone(), self.caller.memory().generation(Method::ListTools));
                let call = link.call(request, outbox);
                Box::pin(async move { usable(call.await, &caller, state) })
            }
            Method::CallTool if link.mirrors() => self.carry(request, outbox),
            Method::Listen => listen(link, request, outbox),
            _ if asks_here => self.carry(request, outbox),
            _ => link.call(request, outbox),
        }
    }
}

impl Relay {
    fn carry(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let again = Again::of(&request);
        let mut carried = Carried { caller: self.caller.clone(), outbox, rounds: 0, listed: false };
        Box::pin(async move {
            let asks_here = request.asks == Asks::Deliver;
            let mut outcome = carried.send(request).await;
            loop {
                let retry = match outcome {
                    Outcome::InputRequired(required) if asks_here => carried.ask(*required).await,
                    Outcome::Failed(error) if carried.may_list_again(&error) => {
                        carried.list_again(again.as_ref()).await
                    }
                    other => return other,
                };
                outcome = match (retry, &again) {
                    (Ok(retry), Ok(again)) => carried.send(again.build(retry.as_ref())).await,
                    (Err(error), _) => return error.into(),
                    (_, Err(error)) => return error.clone().into(),
                };
            }
        })
    }
}

/// Listens at the back to what the front wants to hear, which may change meanwhile: then another
/// listen takes over once it is agreed on, so that nothing is missed in between.
fn listen(link: Arc<dyn Link>, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
    let Some(live) = request.filter.clone() else { return link.call(request, outbox) };
    Box::pin(async move {
        let begin = |filter: Filter| {
            let mut request = RequestBuilder::new(Method::Listen).build();
            request.filter = Some(LiveFilter::new(filter));
            let endless = Deadlines { idle: None, total: None };
            Exchange::start(&*link, request, outbox.timer().clone(), endless)
        };
        let mut edits = 0;
        let mut followed = live.read(|filter| filter.uris.clone());
        let mut heard = begin(live.read(Filter::clone));
        let mut next: Option<Exchange> = None;
        let mut told = false;
        loop {
            let edited = live.edited(edits);
            match whichever(&mut heard, next.as_mut(), edited).await {
                Happened::Edited(count) => {
                    edits = count;
                    next = Some(begin(live.read(Filter::clone)));
                }
                Happened::Heard(Event::Done(outcome)) => return outcome,
                Happened::Heard(Event::Notify(Notification::Acknowledged(agreed))) => {
                    // The front is told once, and that all it may want later is fine too.
                    if !std::mem::replace(&mut told, true) {
                        outbox.notify(Notification::Acknowledged(agreed));
                    }
                }
                Happened::Heard(Event::Notify(notification)) => {
                    outbox.notify(notification);
                    outbox.room().await;
                }
                Happened::Heard(_) => {}
                Happened::Next(Event::Done(Outcome::Failed(_))) => next = None,
                // The back ends all listens: what took over would never be heard of again.
                Happened::Next(Event::Done(outcome)) => return outcome,
                Happened::Next(_) => {
                    let Some(agreed) = next.take() else { continue };
                    heard = agreed;
                    // The front was promised these before the back knew of them.
                    let promised = live.read(|filter| filter.uris.clone());
                    for uri in promised.difference(&followed) {
                        outbox.notify(Notification::ResourceUpdated { uri: (&**uri).into() });
                    }
                    followed = promised;
                }
            }
        }
    })
}

enum Happened {
    Edited(u64),
    Heard(Event),
    Next(Event),
}

async fn whichever(
    heard: &mut Exchange,
    mut next: Option<&mut Exchange>,
    edited: impl Future<Output = u64>,
) -> Happened {
    let mut edited = pin!(edited);
    poll_fn(|cx| {
        if let Poll::Ready(count) = edited.as_mut().poll(cx) {
            return Poll::Ready(Happened::Edited(count));
        }
        if let Some(Poll::Ready(event)) = next.as_mut().map(|next| next.poll_event(cx)) {
            return Poll::Ready(Happened::Next(event));
        }
        heard.poll_event(cx).map(Happened::Heard)
    })
    .await
}

/// One call on its way through.
struct Carried {
    caller: Caller,
    outbox: Outbox,
    rounds: usize,
    listed: bool,
}

impl Carried {
    async fn send(&self, mut request: Request) -> Outcome {
        let link = self.caller.link();
        if request.method == Method::CallTool && link.mirrors() {
            let (tool, arguments) = (request.target(), request.arguments());
            match self.caller.memory().mirrored(&tool, arguments, true) {
                Ok(mirrored) => request.mirrored = mirrored,
                Err(error) => return error.into(),
            }
        }
        link.call(request, self.outbox.clone()).await
    }

    /// Puts the back's questions to the front.
    async fn ask(&mut self, required: InputRequired) -> Result<Option<Retry>, Error> {
        let InputRequired { requests, state } = required;
        let most = self.caller.options().rounds;
        if self.rounds >= most {
            return Err(engine::endless(&format!("asked for input more than {most} times")));
        }
        if requests.len() > asks::MOST {
            let what = format!("asks more than {} questions at once", asks::MOST);
            return Err(engine::broken(&what));
        }
        self.rounds += 1;
        if requests.is_empty() {
            wait::sleep(self.outbox.timer(), engine::put_off(self.rounds - 1)).await;
            return Ok(Some(Retry { responses: None, state }));
        }
        let asked = requests.into_iter().map(|(key, ask)| {
            let answering: BoxFuture<Result<String, Error>> = Box::pin(self.outbox.ask(ask));
            (key, answering)
        });
        let responses = Some(asks::all(asked.collect()).await?);
        Ok(Some(Retry { responses, state }))
    }

    fn may_list_again(&self, error: &Error) -> bool {
        let mirrors = self.caller.link().mirrors();
        mirrors && !self.listed && error.kind == ErrorKind::HeaderMismatch
    }

    async fn list_again(&mut self, again: Result<&Again, &Error>) -> Result<Option<Retry>, Error> {
        self.listed = true;
        let again = again.map_err(Error::clone)?;
        engine::look_up(&self.caller, again.spec.target.as_deref().unwrap_or_default()).await?;
        Ok(again.first.clone())
    }
}

/// A page without the tools that cannot be called over this link.
fn usable(outcome: Outcome, caller: &Caller, state: u64) -> Outcome {
    let Outcome::Complete(Reply::Tools(page)) = outcome else { return outcome };
    let kept: Vec<Arc<ToolInfo>> = caller.memory().learn(page.items().to_vec(), true, state);
    if kept.len() == page.items().len() {
        return Reply::Tools(page).into();
    }
    Reply::Tools(Page { body: Arc::new(PageBody::new(kept)), ..page }).into()
}

/// All of a request that a retry of it needs.
struct Again {
    spec: Spec,
    /// What the front itself sent along of an earlier round.
    first: Option<Retry>,
    asks: Asks,
    log_level: Option<LogLevel>,
    progress: bool,
    scope: Scope,
    peer: Arc<Peer>,
}

impl Again {
    fn of(request: &Request) -> Result<Self, Error> {
        let responses = request.input_responses().map(str::to_owned);
        let state = request.request_state().map(Into::into);
        Ok(Again {
            spec: Spec::of(request)?,
            first: (responses.is_some() || state.is_some()).then_some(Retry { responses, state }),
            asks: request.asks,
            log_level: request.log_level,
            progress: request.progress,
            scope: request.scope.clone(),
            peer: request.peer(),
        })
    }

    fn build(&self, retry: Option<&Retry>) -> Request {
        let mut request = self.spec.build(retry).from_peer(self.peer.clone());
        request.asks = self.asks;
        request.log_level = self.log_level;
        request.progress = self.progress;
        request.scope = self.scope.clone();
        request
    }
}
