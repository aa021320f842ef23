//! Examples of the OpenAPI document.

#[test]
fn each_answer_has_an_example_that_fits_its_schema() {
    let document = publisher_api::document().to_json().unwrap();
    test_engines::examples::check(&document).unwrap();
}
