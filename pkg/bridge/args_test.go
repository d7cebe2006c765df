package bridge

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		want      args
		err       string
	}{
		{"code alone", `{"code":"1"}`, args{code: "1"}, ""},
		{"empty code", `{"code":""}`, args{}, ""},
		{"CRLF runs as LF", `{"code":"a\r\n\tb\r\n"}`, args{code: "a\n\tb\n"}, ""},
		{"a byte order mark goes", `{"code":"\ufeffa"}`, args{code: "a"}, ""},
		{"a surrogate pair is a character", `{"code":"\ud83d\ude80 \\ud83d"}`, args{code: `🚀 \ud83d`}, ""},
		{"servers as a list", `{"code":"","servers":["a","b"," a "]}`, args{servers: []string{"a", "b"}}, ""},
		{"servers as one name", `{"code":"","servers":"a"}`, args{servers: []string{"a"}}, ""},
		{"servers with commas", `{"code":"","servers":"a, b,"}`, args{servers: []string{"a", "b"}}, ""},
		{"servers as a list in a string", `{"code":"","servers":"[\"a\",\"b\"]"}`, args{servers: []string{"a", "b"}}, ""},
		{"nulls are as if left out", `{"code":"x","servers":null,"timeout":null}`, args{code: "x"}, ""},
		{"the object in a string", `"{\"code\":\"x\"}"`, args{code: "x"}, ""},
		{"a timeout", `{"code":"","timeout":1.5}`, args{timeout: 1500 * time.Millisecond}, ""},
		{"a timeout in a string", `{"code":"","timeout":"5"}`, args{timeout: 5 * time.Second}, ""},
		{"a timeout with its unit", `{"code":"","timeout":"5s"}`, args{timeout: 5 * time.Second}, ""},
		{"a timeout above every cap", `{"code":"","timeout":1e9}`, args{timeout: maxTimeout}, ""},
		{"a timeout beyond numbers", `{"code":"","timeout":1e999}`, args{timeout: maxTimeout}, ""},
		{"a reset needs no code", `{"reset":true}`, args{reset: true}, ""},
		{"a reset in a string", `{"code":"1","reset":"True"}`, args{code: "1", reset: true}, ""},
		{"no reset", `{"code":"1","reset":false}`, args{code: "1"}, ""},
		{"a session", `{"code":"1","session":" Ann's data "}`, args{code: "1", session: "Ann's data"}, ""},
		{"a session with a number for a name", `{"code":"1","session":7}`, args{code: "1", session: "7"}, ""},
		{"an empty name is the default session", `{"code":"1","session":""}`, args{code: "1"}, ""},
		{"unknown arguments", `{"code":"","b":1,"a":2}`, args{
			notices: []string{`ignored unknown arguments "a", "b"; run_python takes code, servers, timeout, reset and session`}}, ""},

		{"nothing", ``, args{}, `the argument "code" is missing`},
		{"no code", `{"script":"1","timeout":3}`, args{}, `"code" is missing (a string of Python); got "script", "timeout"`},
		{"code that is a list", `{"code":["a"]}`, args{}, `"code" must be a string of Python, not a list`},
		{"code that is null", `{"code":null}`, args{}, `"code" is missing`},
		{"a list for arguments", `["x"]`, args{}, `must be an object such as`},
		{"NUL", `{"code":"a\nb\u0000"}`, args{}, `NUL character in line 2`},
		{"a lone high surrogate", `{"code":"x = '\ud83d'"}`, args{}, `lone surrogate \ud83d`},
		{"a lone low surrogate", `{"code":"\ude80"}`, args{}, `lone surrogate \ude80`},
		{"two high surrogates", `{"code":"\ud83d\ud83d\ude80"}`, args{}, `lone surrogate \ud83d`},
		{"too much code", `{"code":"` + strings.Repeat("x", 1001) + `"}`, args{}, `has 1001 bytes and the limit is 1000`},
		{"far too much code", `{"code":"` + strings.Repeat("x", 9000) + `"}`, args{}, `and the limit is 1000`},
		{"a reset that is neither", `{"code":"","reset":"maybe"}`, args{}, `"reset" must be true or false, not "maybe"`},
		{"a session that is a list", `{"code":"","session":["a"]}`, args{}, `"session" must be a name such as "analysis", not a list`},
		{"a session's name without end", `{"code":"","session":"` + strings.Repeat("é", 65) + `"}`, args{}, `has 65 characters and the limit is 64`},
		{"a session's name with a newline", `{"code":"","session":"a\nb"}`, args{}, `holds U+000A, which can't be printed`},
		{"a session's name that turns text around", `{"code":"","session":"a\u202eb"}`, args{}, `holds U+202E`},
		{"no code and no reset", `{"reset":false}`, args{}, `"code" is missing`},
		{"timeout 0", `{"code":"","timeout":0}`, args{}, `more than 0 seconds, not 0`},
		{"timeout -1", `{"code":"","timeout":-1}`, args{}, `more than 0 seconds, not -1`},
		{"a timeout in words", `{"code":"","timeout":"soon"}`, args{}, `"timeout" must be a number of seconds, not "soon"`},
		{"a timeout that is none", `{"code":"","timeout":"NaN"}`, args{}, `must be a number of seconds`},
		{"servers that are numbers", `{"code":"","servers":[1]}`, args{}, `"servers" must be a list of names`},
		{"servers that are an object", `{"code":"","servers":{"a":1}}`, args{}, `"servers" must be a list of names such as ["github"], not an object`},
		{"a server's name without end", `{"code":"","servers":["` + strings.Repeat("x", 300) + `"]}`, args{}, `name has 300 bytes`},
		{"too many servers", `{"code":"","servers":"` + manyNames(65) + `"}`, args{}, `at most 64 servers`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseArgs(json.RawMessage(tt.raw), 1000)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %+v, error %v; want %q", got, err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(args{})); err != nil || diff != "" {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("s", i+1) + ",")
	}
	return b.String()
}
