//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/toon"
)

// TestOutputModes has agents of one daemon ask for results in each form: by
// their shim's environment, and one by its client's name alone.
func TestOutputModes(t *testing.T) {
	h := onEngine(t, engines.ForTest(t, engines.Rootful))
	folder := filepath.Join(h.dir, ".config", "bridged")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	table := "[[client]]\nname = \"t?st\"\noutput_mode = \"json\"\n"
	if err := os.WriteFile(filepath.Join(folder, "config.toml"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	h.serve(t).ready(t)
	code := "print('a\\n\\n\\n\\nb')\n[{'id': 1, 'n': 'Ann'}, {'id': 2**64, 'n': 'B, o'}]"
	for _, tt := range []struct{ mode, want string }{
		{"compact", "a\n\nb\n[{'id': 1, 'n': 'Ann'}, {'id': 18446744073709551616, 'n': 'B, o'}]"},
		{"toon", "status: ok\nstdout: \"a\\n\\n\\n\\nb\\n\"\nresult[2]{id,n}:\n  1,Ann\n  18446744073709551616,\"B, o\"\n"},
		{"", `{"status":"ok","stdout":"a\n\n\n\nb\n","result":[{"id":1,"n":"Ann"},{"id":18446744073709551616,"n":"B, o"}]}`},
	} {
		t.Run("mode "+tt.mode, func(t *testing.T) {
			own := *h
			own.env = append(slices.Clone(h.env), "MCP_BRIDGE_OUTPUT_MODE="+tt.mode)
			res := own.agent(t, h.dir).call(map[string]any{"code": code})
			data, err := json.Marshal(res.StructuredContent)
			if err != nil || res.IsError {
				t.Fatalf("%v: %s", err, text(res))
			}
			got := text(res)
			switch tt.mode {
			case "toon":
				var back []byte
				if back, err = toon.Decode(got, toon.DecodeOptions{}); err != nil {
					t.Fatalf("%v in\n%s", err, got)
				}
				sameJSON(t, back, data)
			case "":
				sameJSON(t, []byte(got), data)
			}
			if got := untimed.ReplaceAllString(got, ""); got != tt.want {
				t.Errorf("(-want +got):\n%s", cmp.Diff(tt.want, got))
			}
		})
	}
}

// untimed matches what differs from run to run.
var untimed = regexp.MustCompile(`,?"?duration_ms"?: ?\d+`)

func sameJSON(t *testing.T, a, b []byte) {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(y, x); diff != "" {
		t.Errorf("structuredContent and the text (-want +got):\n%s", diff)
	}
}

// testFrames has real pandas tell its frames to an agent that reads TOON.
func testFrames(t *testing.T, h *home) {
	own := *h
	own.env = append(slices.Clone(h.env), "MCP_BRIDGE_OUTPUT_MODE=toon")
	a := own.agent(t, h.dir)
	for _, tt := range []struct{ code, want string }{
		{"import numpy as np, pandas as pd\npd.DataFrame({'a': [1, 2], 'b': [1.5, None], 'c': pd.to_datetime(['2026-01-02', None])})",
			"status: ok\nresult[2]{a,b,c}:\n  1,1.5,\"2026-01-02T00:00:00\"\n  2,null,null\n"},
		{"pd.DataFrame({'k': list('aab'), 'v': [1, 2, 4]}).groupby('k').agg({'v': ['sum', 'max']})",
			"status: ok\nresult: \"    v    \\n  sum max\\nk        \\na   3   2\\nb   4   4\\n[2 rows x 2 columns; int64: ('v', 'sum'), ('v', 'max')]\"\n"},
		{"pd.DataFrame({'k': list('aab'), 'v': [1, 2, 4]}).groupby('k').sum()", "status: ok\nresult[2]{k,v}:\n  a,3\n  b,4\n"},
		{"pd.Series(list('aab')).value_counts()", "status: ok\nresult:\n  a: 2\n  b: 1\n"},
		{"pd.Series([1, 2])", "status: ok\nresult[2]: 1,2\n"},
		{"np.arange(4).reshape(2, 2)", "status: ok\nresult[2]:\n  - [2]: 0,1\n  - [2]: 2,3\n"},
		{"{np.float64(2.5)}", "status: ok\nresult[1]: 2.5\n"},
	} {
		got := untimed.ReplaceAllString(a.run(tt.code), "")
		if got != tt.want {
			t.Errorf("%s (-want +got):\n%s", tt.code, cmp.Diff(tt.want, got))
		}
	}
}
