use super::*;
use std::fs;
use std::path::Path;

fn told(page: &[u8]) -> Option<Told> {
    let mut whole = Page::default();
    whole.feed(page);
    whole.end(Micros::ZERO)
}

fn load(page: &str) -> Load {
    let load = told(page.as_bytes()).unwrap().load;
    (load.running, load.waiting, load.kv_usage)
}

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/metrics");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Running, waiting, share of the KV space.
type Load = (Option<u32>, Option<u32>, Option<f64>);

/// What each engine's page says.
const PAGES: [(&str, Load); 8] = [
    ("vllm-0.32.0.prom", (Some(3), Some(0), Some(0.000_732_600_732_600_73))),
    ("sglang-0.4.prom", (Some(162), Some(2826), Some(0.28))),
    ("sglang-ranks.prom", (Some(12), Some(3), Some(0.6))),
    ("trtllm-1.2.prom", (Some(4), Some(9), Some(0.62))),
    ("triton-trtllm-23.11.prom", (Some(8), Some(3), Some(0.375))),
    ("triton.prom", (None, Some(5), None)),
    ("llamacpp.prom", (Some(1), Some(4), None)),
    ("llamacpp-2024.prom", (Some(1), Some(4), Some(0.5))),
];

#[test]
fn each_engine_is_read_by_its_own_names() {
    for (name, said) in PAGES {
        let page = fixture(name);
        assert_eq!(load(&page), said, "{name}");
        assert_eq!(told(page.as_bytes()).unwrap().garbled, None, "{name}");
    }
}

#[test]
fn a_page_reads_the_same_however_it_is_cut() {
    for (name, _) in PAGES {
        let page = fixture(name);
        let whole = told(page.as_bytes());
        for size in [1, 7, 100, 4096] {
            let mut pieces = Page::default();
            page.as_bytes().chunks(size).for_each(|piece| pieces.feed(piece));
            assert_eq!(pieces.end(Micros::ZERO), whole, "{name} by {size}");
        }
    }
}

#[test]
fn ranks_and_models_behind_one_address_are_added_and_the_fullest_kv_counts() {
    let page = "vllm:num_requests_running{engine=\"0\",model_name=\"a\"} 1\n\
        vllm:num_requests_running{engine=\"1\",model_name=\"b\"} 2\n\
        vllm:num_requests_waiting{engine=\"0\"} 4\nvllm:num_requests_waiting{engine=\"1\"} 5\n\
        vllm:kv_cache_usage_perc{engine=\"0\"} 0.1\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.7\n\
        vllm:other 1\n";
    assert_eq!(load(page), (Some(3), Some(9), Some(0.7)));
}

#[test]
fn of_two_names_for_one_thing_the_first_on_the_page_counts() {
    let page = "vllm:gpu_cache_usage_perc 0.4\nvllm:kv_cache_usage_perc 0.5\n\
        vllm:num_requests_running 1\n";
    assert_eq!(load(page), (Some(1), None, Some(0.4)));
}

#[test]
fn of_ranks_that_copy_one_number_the_largest_counts() {
    let ranks = |first, second| {
        format!(
            "sglang_num_running_reqs{{dp_rank=\"0\",tp_rank=\"0\"}} {first}\n\
             sglang_num_running_reqs{{dp_rank=\"0\",tp_rank=\"1\"}} {second}\n\
             sglang_num_running_reqs{{dp_rank=\"1\",tp_rank=\"0\"}} 4\n"
        )
    };
    for (first, second) in [(1, 2), (2, 1)] {
        assert_eq!(load(&ranks(first, second)).0, Some(6));
    }
}

#[test]
fn a_label_may_hold_anything() {
    let page = "vllm:num_requests_running{model_name=\"a b} 9\"} 3.0\n\
        vllm:num_requests_waiting{model_name=\"x{\"} 2.0 1395066363000\n\
        vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 9\n";
    assert_eq!(load(page), (Some(3), Some(2), None));
}

#[test]
fn what_is_not_told_is_not_zero() {
    assert_eq!(load("vllm:num_requests_running 1\n"), (Some(1), None, None));
    // The end of the last line is missing: 12 may have been 1200.
    assert_eq!(load("vllm:num_requests_running 1\nvllm:num_requests_waiting 12").1, None);
    let long = "x".repeat(3 * LINE_MAX);
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for page in ["", "\n\n", "<html>\n", "other_metric 1\n", "{\"iter\": 1}\n", &long] {
        assert_eq!(told(page.as_bytes()), None, "{page:.20}");
    }
    assert_eq!(told(&binary), None);
}

#[test]
fn a_value_that_cannot_be_true_is_no_value_and_is_named() {
    for bad in ["NaN", "-1", "+Inf", "1e300", "5000000000", "x", "", "0x10", "\u{fffd}"] {
        let page = format!("vllm:num_requests_running {bad}\nvllm:num_requests_waiting 2\n");
        let told = told(page.as_bytes()).unwrap();
        assert_eq!((told.load.running, told.load.waiting), (None, Some(2)), "{bad}");
        assert_eq!(told.garbled, Some("vllm:num_requests_running"), "{bad}");
    }
    assert_eq!(load("vllm:num_requests_running 1\nvllm:kv_cache_usage_perc 1.5\n").2, None);
    // Without one of its ranks there is no sum.
    let page = "vllm:num_requests_running{engine=\"0\"} 1\n\
        vllm:num_requests_running{engine=\"1\"} NaN\n\
        vllm:num_requests_waiting 0\n";
    assert_eq!(load(page).0, None);
}

#[test]
fn a_line_that_never_ends_costs_no_memory() {
    let mut page = Page::default();
    for _ in 0..1_000 {
        page.feed(&[b'x'; 4096]);
        assert!(page.line.capacity() <= 2 * LINE_MAX);
    }
    page.feed(b"\nvllm:num_requests_running 1\n");
    assert_eq!(page.end(Micros::ZERO).unwrap().load.running, Some(1));
}
