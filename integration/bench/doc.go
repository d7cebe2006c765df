//go:build integration

// Command bench measures bridged beside what it is compared with, in one run
// on one real engine, prints a table and writes out/bench.json.
//
//	go run -tags integration ./integration/bench [-quick] [-only warm,first] [ENGINE]
//
// Every figure is a ratio or is printed beside its yardstick: the machine's
// own speed cancels out. The two sides of a ratio are measured in turns. -quick
// takes few samples and shows that everything works, no more.
//
// # The figures
//
// Names stay from release to release. Those that end in _over_ something are
// ratios of medians, the first divided by the second. A call is a call of
// run_python through shim, daemon and container.
//
// The part warm, with the small image:
//
//	echo_*                             a line to a container's Python and back, over the engine alone
//	warm_call_*, warm_print_*          a call of `x = 1`, and of print('hello'), in a session under way
//	container_call_*                   `x = 1` in a container of its own: create, run, remove
//	warm_call_over_echo_p50            aim: at most 5
//	container_call_over_warm_call_p50  aim: at least 300
//
// The parts first, proxied and sizes:
//
//	first_call_p50_ms                  the first call of a session, the pool being warm
//	first_call_over_warm_call_p50      beside later calls of the same sessions
//	proxied_call_*, direct_call_*      a real server's tool called by code, and by an mcp-go client
//	proxied_over_direct_p50, _p99      both together
//	tool_entry_tokens                  what an agent's context pays for run_python
//	shim_binary_bytes                  the shim's size on disk
//
// The part proxy, the direct side being an mcp-go client of a server of its own.
// The servers are a real one, and, in what is called fast, one of ours that
// answers at once:
//
//	proxied_fast_call_*, direct_fast_call_*
//	daemon_request_*                   a request of code that the daemon answers by itself: docs of one tool
//	proxy_overhead_over_daemon_request_p50
//	                                   what a proxied call takes more than a direct one, beside that; aim: at most 1
//	proxy_overhead_over_echo_p50       the same beside a line to a container's Python and back
//	proxied_calls_per_s_N              with N calls under way at once; direct_ and fast_ likewise
//	proxied_over_direct_calls_per_s_N  both together: here more is better
//	proxied_10mb_mb_per_s, direct_10mb_mb_per_s, proxied_10mb_over_direct_p50
//	                                   results of 10 MB
//	list_1000_tools_cold_ms            docs of a server with 1,000 tools, which is started for it
//	list_1000_tools_warm_ms            the same again; direct_ is tools/list, with the start for cold
//	list_1000_tools_*_over_direct_p50  both together
//
// The part jupyter, with the full image. The other side is ipykernel, driven by
// jupyter_client over file sockets, without container and history, on the same
// Python with the same packages:
//
//	cell_*, ipykernel_*                the cells below, on either side
//	warm_call_over_ipykernel_p50       x+1
//	warm_print_over_ipykernel_p50      print('hello')
//	warm_1mb_over_ipykernel_p50        a print of 1 MB, of which our agent sees head and tail
//	warm_figure_over_ipykernel_p50     a matplotlib figure
//
// The parts pandas and output, with the full image:
//
//	first_call_pandas_ms               a session's first call, which imports pandas and prints a frame
//	cold_call_pandas_ms                the same code in a container of its own
//	cold_over_pool_first_call_p50      both together
//	output_10mb_mb_per_s               a call that prints 10 MB; the same with 100 MB
//	output_10mb_rss_growth_mb          by how much the daemon grew meanwhile, at the most
//
// The part sessions, with 50 sessions that call as fast as they can:
//
//	sessions_50_calls_per_s            of all together
//	daemon_rss_mb_50_sessions          the daemon's memory then
//
// The part escapes:
//
//	escape_attempts                    what hostile code tries; integration/escape says what
//	escape_successes                   and how much of it gets through; aim: 0
package main
