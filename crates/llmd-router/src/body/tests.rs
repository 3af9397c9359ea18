use super::*;

fn text<'a>(body: &'a str, range: &Range<usize>) -> &'a str {
    &body[range.clone()]
}

#[test]
fn the_parts_of_a_chat_request_are_found_in_template_order() {
    let body = r#" {"messages": [{"role":"user","content":"hi"}], "model" : "chat",
        "stream":true,"max_tokens":7,"other":{"model":"x"},"tools":[1]}"#;
    let ask = parse(body.as_bytes()).unwrap();
    assert_eq!(ask.model, "chat");
    assert_eq!(text(body, &ask.model_span), "\"chat\"");
    assert!(ask.stream);
    assert_eq!(ask.max_tokens, Some(7));
    let prompt: Vec<_> = ask.prompt.iter().map(|range| text(body, range)).collect();
    assert_eq!(prompt, ["[1]", r#"[{"role":"user","content":"hi"}]"#]);
}

#[test]
fn max_completion_tokens_goes_before_max_tokens() {
    let ask = parse(br#"{"model":"m","max_tokens":7,"max_completion_tokens":9}"#).unwrap();
    assert_eq!(ask.max_tokens, Some(9));
}

#[test]
fn values_that_are_the_engines_business_do_not_fail_here() {
    let body = br#"{"model":"m","stream":"yes","max_tokens":-1,"messages":null,"prompt":5}"#;
    let ask = parse(body).unwrap();
    assert!(!ask.stream);
    assert_eq!(ask.max_tokens, None);
    assert_eq!(ask.prompt.len(), 1);
}

#[test]
fn token_ids_are_counted_and_text_is_not() {
    let tokens = |prompt: &str| {
        let body = format!("{{\"model\":\"m\",\"prompt\":{prompt}}}");
        parse(body.as_bytes()).unwrap().prompt_tokens
    };
    assert_eq!(tokens("[1, 2, 3]"), Some(3));
    assert_eq!(tokens("\"1, 2, 3\""), None);
    assert_eq!(tokens("[\"a, b\"]"), None);
    assert_eq!(tokens("[]"), None);
}

#[test]
fn what_cannot_be_read_is_a_bad_request() {
    let bodies: [&[u8]; 8] = [
        b"",
        b"[]",
        b"{",
        b"{\"model\":\"m\"} x",
        b"{\"model\":5}",
        b"{\"messages\":[]}",
        b"{\"model\":\"\\ud800\"}",
        b"{\"model\":\"m\",\"prompt\":\"\xff\"}",
    ];
    for body in bodies {
        let failure = parse(body).unwrap_err();
        assert_eq!(failure.status(), 400, "{:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn a_body_that_is_no_object_is_refused_in_the_users_words() {
    for (body, found) in [
        (r#"["m", true, 5, 5, [], [], "p"]"#, "a list"),
        (" \n null", "null"),
        ("\"m\"", "a string"),
        ("-1", "a number"),
        ("true", "a boolean"),
        ("\u{feff}{}", "no JSON"),
        (" ", "empty"),
    ] {
        let message = parse(body.as_bytes()).unwrap_err().message;
        assert_eq!(message, format!("the body must be a JSON object, it is {found}"));
    }
    let message = parse(b"{\"model\":").unwrap_err().message;
    assert!(message.starts_with("the body is not valid: EOF"), "{message}");
}

#[test]
fn a_model_named_twice_is_refused() {
    // An engine might take the other one.
    assert!(parse(br#"{"model":"a","model":"b"}"#).is_err());
}

#[test]
fn deep_nesting_is_read_without_recursion() {
    let body =
        format!("{{\"model\":\"m\",\"prompt\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(body.as_bytes()).is_ok());
}

#[test]
fn renaming_changes_the_name_and_not_a_byte_more() {
    let body = Bytes::from_static(br#"{"a":"chat", "model" : "chat" , "z":"chat"}"#);
    let ask = parse(&body).unwrap();
    let renamed = rename(&body, &ask.model_span, "org/\"new\"");
    assert_eq!(&renamed[..], br#"{"a":"chat", "model" : "org/\"new\"" , "z":"chat"}"#);
}
