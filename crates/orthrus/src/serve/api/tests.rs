//! The description of the API. `tests/tests/programs/api.rs` holds it against real answers.

use super::routes;
use serde_json::Value;

fn description() -> Value {
    serde_json::to_value(routes().1).unwrap()
}

/// The methods and paths of the description, as `GET /v1/status`.
fn requests(description: &Value) -> Vec<String> {
    let paths = description["paths"].as_object().unwrap();
    let each = |(path, methods): (&String, &Value)| -> Vec<String> {
        let methods = methods.as_object().unwrap().keys();
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect()
    };
    paths.iter().flat_map(each).collect()
}

#[test]
fn every_request_stands_on_the_page_and_no_other_one() {
    let page = include_str!("../../../../../docs/api.md");
    let mut described = requests(&description());
    described.push("GET /v1/openapi.json".to_owned());
    let words = page.split('`');
    let mut listed: Vec<String> = words
        .filter(|word| word.starts_with("GET /v1/") || word.starts_with("POST /v1/"))
        .map(str::to_owned)
        .collect();
    for list in [&mut described, &mut listed] {
        list.sort();
        list.dedup();
    }
    assert_eq!(listed, described);
}

#[test]
fn every_request_and_every_field_is_described() {
    let description = description();
    assert_eq!(description["info"]["version"], env!("CARGO_PKG_VERSION"));
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path} has no summary");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("200") && responses.contains_key("default"), "{method} {path}");
        }
    }
    let schemas = description["components"]["schemas"].as_object().unwrap();
    assert!(schemas.contains_key("Problem") && schemas.len() > 15, "{:?}", schemas.keys());
}
