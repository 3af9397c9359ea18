use super::*;

fn read_at_zero(page: &str) -> Option<ReportedLoad> {
    read(page, Micros::ZERO)
}

#[test]
fn each_engine_is_read_by_its_own_names() {
    let vllm = "# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n\
        vllm:num_requests_running{engine=\"0\",model_name=\"a b}\"} 3.0\n\
        vllm:num_requests_waiting{engine=\"0\"} 2.0\n\
        vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 9\n\
        vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n";
    let load = read_at_zero(vllm).unwrap();
    assert_eq!((load.running, load.waiting, load.kv_usage), (Some(3), Some(2), Some(0.25)));

    let llamacpp = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 4\n";
    let load = read_at_zero(llamacpp).unwrap();
    assert_eq!((load.running, load.waiting, load.kv_usage), (Some(1), Some(4), None));
}

#[test]
fn ranks_behind_one_address_are_added_and_the_fullest_kv_counts() {
    let page = "vllm:num_requests_running{engine=\"0\"} 1\n\
        vllm:num_requests_running{engine=\"1\"} 2\n\
        vllm:kv_cache_usage_perc{engine=\"0\"} 0.1\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.7\n";
    let load = read_at_zero(page).unwrap();
    assert_eq!((load.running, load.kv_usage), (Some(3), Some(0.7)));
}

#[test]
fn what_is_not_told_is_not_zero() {
    let load = read_at_zero("vllm:num_requests_running 1\n").unwrap();
    assert_eq!((load.running, load.waiting, load.kv_usage), (Some(1), None, None));
    let nothing = [
        "",
        "<html>",
        "other_metric 1",
        "vllm:num_requests_running NaN",
        "vllm:num_requests_running -1",
        "vllm:num_requests_running",
        "vllm:num_requests_running{",
    ];
    for page in nothing {
        assert_eq!(read_at_zero(page), None, "{page:?}");
    }
}
