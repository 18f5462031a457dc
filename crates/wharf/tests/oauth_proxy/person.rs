//! Somebody with a browser, who reads what pages say and presses their buttons.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use http::{HeaderMap, header};
use url::Url;
use wharf::{
    Error,
    auth::{
        client::{Callback, Destination, Visit, Visitor},
        fetch::{Fetch, Fetched},
    },
    model::BoxFuture,
};

use crate::idp::Idp;

pub(crate) struct Person {
    idp: Idp,
    user: String,
    decision: &'static str,
    pub(crate) visits: Arc<AtomicUsize>,
    page: Arc<Mutex<String>>,
}

struct OneVisit {
    idp: Idp,
    user: String,
    decision: &'static str,
    page: Arc<Mutex<String>>,
}

impl Person {
    pub(crate) fn new(idp: &Idp, user: &str) -> Self {
        let (visits, page) = (Arc::default(), Arc::default());
        Person { idp: idp.clone(), user: user.into(), decision: "allow", visits, page }
    }

    pub(crate) fn who_says_no(self) -> Self {
        Person { decision: "deny", ..self }
    }

    /// What the consent page said last.
    pub(crate) fn last_page(&self) -> String {
        self.page.lock().unwrap().clone()
    }
}

impl Visit for Person {
    fn prepare(&self, _last: Option<&str>) -> BoxFuture<Result<Box<dyn Visitor>, Error>> {
        self.visits.fetch_add(1, Ordering::SeqCst);
        let visit = OneVisit {
            idp: self.idp.clone(),
            user: self.user.clone(),
            decision: self.decision,
            page: self.page.clone(),
        };
        Box::pin(async move { Ok(Box::new(visit) as Box<dyn Visitor>) })
    }
}

impl Visitor for OneVisit {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:33418/callback"
    }

    fn visit(self: Box<Self>, to: Destination) -> BoxFuture<Result<Callback, Error>> {
        Box::pin(async move {
            let fetch = Fetch::new();
            let page = fetch.get(to.url.as_str(), HeaderMap::new()).await.unwrap();
            let shown = text(&page);
            *self.page.lock().unwrap() = shown.clone();
            let ticket = between(&shown, "name=ticket value=\"", "\"");
            let action = to.url.join(between(&shown, "action=\"", "\"")).unwrap();
            let mut headers = cookies(&page);
            let origin = action.origin().ascii_serialization();
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            let fields = [("ticket", ticket), ("decision", self.decision)];
            let page = fetch.post_form(action.as_str(), headers, &fields).await.unwrap();
            let onward = between(&text(&page), "<a href=\"", "\"").replace("&amp;", "&");
            if self.decision != "allow" {
                return Ok(Callback::from_url(&onward));
            }
            let back = self.idp.sign_in(&Url::parse(&onward).unwrap(), &self.user);
            let page = fetch.get(back.as_str(), cookies(&page)).await.unwrap();
            assert_eq!(page.status, 303, "{}", text(&page));
            Ok(Callback::from_url(page.headers[header::LOCATION].to_str().unwrap()))
        })
    }
}

/// The cookies that a page set, as the browser sends them back.
fn cookies(page: &Fetched) -> HeaderMap {
    let set = page.headers.get_all(header::SET_COOKIE).iter();
    let pairs: Vec<_> = set.map(|it| it.to_str().unwrap().split(';').next().unwrap()).collect();
    HeaderMap::from_iter([(header::COOKIE, pairs.join("; ").parse().unwrap())])
}

fn text(page: &Fetched) -> String {
    String::from_utf8(page.body.to_vec()).unwrap()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before} in {text}")).1;
    rest.split_once(after).unwrap().0
}
