//! Examples of the OpenAPI document.

#[test]
fn each_answer_has_an_example_that_fits_its_schema() {
    let document = publisher_api::document().to_json().unwrap();
    if let Some(p) = std::env::var_os("DUMP") {
        std::fs::write(p, publisher_api::document().to_pretty_json().unwrap() + "\n").unwrap();
    }
    test_engines::examples::check(&document).unwrap();
}
