//! Change notifications.

use wharf::{
    args,
    model::{Notification, SubscriptionFilter},
};

use crate::harness::{Harness, in_time};

pub async fn a_change_of_the_tools_is_notified(harness: Harness) {
    let client = harness.client().await;
    let filter = SubscriptionFilter::default().tools(true).prompts(true);
    let mut heard = in_time(client.listen(filter.clone())).await.unwrap();
    assert!(heard.agreed().tools);
    let before = in_time(client.tools().all()).await.unwrap().len();
    in_time(client.call("set_bonus", args! { on: true })).await.unwrap();
    let told = in_time(heard.next()).await.unwrap().unwrap();
    assert!(matches!(told, Notification::ToolsChanged), "{told:?}");
    assert_eq!(in_time(client.tools().all()).await.unwrap().len(), before + 1);
    let bonus: String = in_time(client.call_as("bonus", ())).await.unwrap();
    assert_eq!(bonus, "bonus");
}

pub async fn a_resource_is_followed(harness: Harness) {
    let client = harness.client().await;
    let mut heard = in_time(client.subscribe("test://readme")).await.unwrap();
    let touch = async |uri: &str| {
        in_time(client.call("touch", args! { uri: uri })).await.unwrap();
    };
    touch("test://logo").await;
    touch("test://readme").await;
    let told = in_time(heard.next()).await.unwrap().unwrap();
    assert!(matches!(&told, Notification::ResourceUpdated { uri } if **uri == *"test://readme"));
    // The end of a second subscription to the same resource does not end the first.
    let second = in_time(client.subscribe("test://readme")).await.unwrap();
    drop(second);
    in_time(client.ping()).await.unwrap();
    touch("test://readme").await;
    assert!(in_time(heard.next()).await.unwrap().is_ok());
}
