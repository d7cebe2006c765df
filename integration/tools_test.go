//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bridged/bridged/integration/engines"
)

// toolCalls are what a person at a prompt would try with tools of real servers,
// run in this order in one session. What is shown must match the pattern. In
// both, DIR is a folder that the server of files may use.
var toolCalls = []struct {
	name, code, want string
	fails            bool
}{
	{"help is that of a function", "help(mcp_time.convert_time)",
		`(?s)convert_time\(source_timezone: str, time: str, target_timezone: str\) -> .*time_difference: str.*` +
			`source_timezone: str\n +Source IANA timezone.*Tool convert_time of MCP server time`, false},
	{"help of a server", "help(mcp_everything)", `(?s)get_sum\(a: float, b: float\).*Returns the sum of two numbers`, false},
	{"a signature with enumerations and defaults", "import inspect\nprint(inspect.signature(mcp_everything.get_annotated_message))",
		`\(messageType: Literal\["error", "success", "debug"\], includeImage: bool = False\)`, false},
	{"tools are listed", "'read_text_file' in dir(mcp_files)", `^True$`, false},
	{"positional arguments", "await mcp_time.convert_time('Europe/Berlin', '12:00', 'Asia/Tokyo')", `'time_difference': '\+[78].0h'`, false},
	{"the name as the server has it", "await mcp_everything['get-sum'](2, 3)", `The sum of 2 and 3 is 5`, false},
	{"a path as an argument, and no await", "import pathlib\nmcp_files.sync.read_text_file(pathlib.Path('DIR') / 'note.txt')", `from the host`, false},
	{"a thread", "import asyncio\nawait asyncio.to_thread(mcp_everything.sync.echo, 'from a thread')", `Echo: from a thread`, false},
	{"a typo in a tool", "await mcp_time.convert_tme('Europe/Berlin')", `UnknownTool: Server time has no tool convert_tme\. Did you mean convert_time\?$`, true},
	{"a typo in an import", "from mcp.servers.time import convrt_time", `ImportError: .*Did you mean convert_time\?`, true},
	{"a typo in a parameter", "await mcp_time.get_current_time(timezon='Europe/Berlin')",
		`InvalidArguments: .*there is no parameter timezon \(did you mean timezone\?\); timezone is missing\. Its signature: get_current_time\(timezone: str\)`, true},
	{"a missing parameter", "mcp_everything.sync.get_sum(1)", `InvalidArguments: .*b is missing`, true},
	{"a value that does not fit the schema", "await mcp_everything.get_sum('one', 2)", `InvalidArguments|MCPError`, true},
	{"an error of the server says whose it is", "mcp_files.sync.read_text_file('DIR/nope')", `MCPError: files\.read_text_file: .*no such file`, true},
	{"structured content", "(await mcp_everything.get_structured_content('Chicago'))['conditions']", `\w`, false},
	{"the whole answer", "sorted(await mcp_everything.get_structured_content.raw('Chicago'))", `'content', 'structuredContent'`, false},
	{"blocks have types", "r = await mcp_everything.get_tiny_image()\n[type(b).__name__ for b in r], r[1].mime_type, r[1].data[:4]",
		`\(\['Text', 'Image', 'Text'\], 'image/png', b'\\x89PNG'\)`, false},
	{"five hundred at once", "r = await asyncio.gather(*[mcp_everything.get_sum(i, 1) for i in range(500)])\n" +
		"[i for i, x in enumerate(r) if x != f'The sum of {i} and 1 is {i + 1}.']", `^\[\]$`, false},
	{"five thousand at once, one of which fails", "r = await asyncio.gather(*[mcp_everything.echo(str(i)) if i != 7 else mcp_everything.echo() " +
		"for i in range(5000)], return_exceptions=True)\n[i for i, x in enumerate(r) if x != f'Echo: {i}']", `^\[7\]$`, false},
	{"canceled calls make room", "slow = [asyncio.ensure_future(mcp_everything.trigger_long_running_operation(60, 1)) for _ in range(1500)]\n" +
		"await asyncio.sleep(0.3)\nfor t in slow: t.cancel()\nawait asyncio.gather(*slow, return_exceptions=True)\n" +
		"r = await asyncio.gather(*[mcp_everything.echo(str(i)) for i in range(1500)])\nlen(r), r[-1]", `\(1500, 'Echo: 1499'\)`, false},
	{"resources", "r = await mcp_everything.list_resources()\n(await mcp_everything.read_resource(r[0]['uri']))[:2]", `# `, false},
	{"prompts", "(await mcp_everything.get_prompt('args-prompt', {'city': 'Oslo'}))['messages'][0]['content']['text']", `Oslo`, false},
	{"completions", "await mcp_everything.complete('completable-prompt', 'department', 'E')", `Engineering`, false},
	{"what a server says of itself", "(await mcp_everything.server_info())['name']", `everything`, false},
	{"what was seen in results is in the help", "import time\nfor _ in range(100):\n    t = str(inspect.signature(mcp_everything.echo))\n" +
		"    if t.endswith('-> str'): break\n    time.sleep(0.1)\nt", `\(message: str\) -> str`, false},
	{"help of a server that is down", "print(mcp_broken.__doc__)", `Its tools are not known now: .*no-such-program`, false},
}

// TestToolsArePleasant calls real servers as functions.
func TestToolsArePleasant(t *testing.T) {
	onEngines(t, []engines.Name{engines.Rootful}, func(t *testing.T, h *home, _ *daemon, _ *engines.Running) {
		h.servers(t, realServers(h))
		if err := os.WriteFile(filepath.Join(h.dir, "note.txt"), []byte("from the host"), 0o600); err != nil {
			t.Fatal(err)
		}
		a := h.agent(t, h.dir)
		if got := a.run("from mcp import runtime\n(e,) = await runtime.load_servers('everything')\n" +
			"await mcp_everything.echo('at once')"); got != "'Echo: at once'" {
			t.Errorf("a server that is loaded from code: got %s", got)
		}
		if got := text(a.call(map[string]any{"code": "await runtime.load_servers('time', 'tiem')"})); !strings.Contains(got, "tiem") {
			t.Errorf("a server that can't be loaded: got %s", got)
		}
		a.run("", "files", "time", "broken")
		for _, c := range toolCalls {
			res := a.call(map[string]any{"code": strings.ReplaceAll(c.code, "DIR", h.dir)})
			if got := text(res); res.IsError != c.fails || !regexp.MustCompile(c.want).MatchString(got) {
				t.Errorf("%s: got %s\nwant %s", c.name, got, c.want)
			}
		}
	})
}
