//! App of the demo server: a form that splits a bill.

use wharf::{apps::App, prelude::*};

/// URI of the page.
const PAGE: &str = "ui://wharf-demo/bill";

/// Page with the form.
pub(crate) fn app() -> App {
    App::html(PAGE, include_str!("bill.html"))
        .title("Split a bill")
        .description("A form that splits a bill, and shows the share of each person.")
        .border(true)
}

/// Splits a bill evenly, and shows it in a form where the user can change it.
#[tool(read_only, app = PAGE)]
pub(crate) async fn split_bill(
    /// The total.
    #[range(0.0..=1_000_000.0)]
    total: f64,
    /// The number of people.
    #[range(1..=100)]
    people: u32,
    ctx: Ctx,
) -> Result<ToolResult, ToolError> {
    let share = total / f64::from(people);
    let text = match ctx.client_has_apps() {
        true => format!("{share:.2} each. The user sees the bill, and can change it."),
        false => format!("{people} people pay {share:.2} each, {total:.2} in total."),
    };
    let mut result = ToolResult::json(&BillShare { total, people, share })?;
    result.content = vec![Content::text(text)];
    Ok(result)
}

/// Structured content of [`split_bill`].
#[derive(Serialize)]
struct BillShare {
    total: f64,
    people: u32,
    share: f64,
}

/// Pays a share of a bill: only the model may, and not the page.
#[tool(visibility = "model")]
pub(crate) async fn pay_share(
    /// The amount.
    #[range(0.0..=1_000_000.0)]
    amount: f64,
) -> String {
    format!("paid {amount:.2}")
}
