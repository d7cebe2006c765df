package bridge

import (
	"strings"
	"testing"
)

func TestPrintedJSONIsData(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"an object", `{"a": [1, "x\n"]}` + "\n", `{"a": [1, "x\n"]}`},
		{"a list with blanks around it", "\n [1e400]\t", `[1e400]`},
		{"words of many scripts", `["é🚀 \u00e9 \ud83d\ude80 \\u0007 \\b"]`, `["é🚀 \u00e9 \ud83d\ude80 \\u0007 \\b"]`},
		{"a number is text", "5\n", ""},
		{"a string is text", `"a"`, ""},
		{"nothing", "", ""},
		{"Python is not JSON", `{'a': 1}`, ""},
		{"two values", "[1]\n[2]\n", ""},
		{"more than JSON", "rows:\n[1]", ""},
		{"an escape of a terminal", `["\u001b[31m"]`, ""},
		{"a bell in a key", `{"\u0007":1}`, ""},
		{"a backspace", `["a\b"]`, ""},
		{"delete", "[\"\x7f\"]", ""},
		{"a control character of eight bits", "[\"\u009b31m\"]", ""},
		{"the same escaped", `["\u009b"]`, ""},
		{"half a character", `["\ud83d"]`, ""},
		{"as deep as may be", strings.Repeat("[", maxLevels) + strings.Repeat("]", maxLevels), strings.Repeat("[", maxLevels) + strings.Repeat("]", maxLevels)},
		{"deeper", strings.Repeat("[", maxLevels+1) + strings.Repeat("]", maxLevels+1), ""},
		{"brackets in a string are no levels", `["` + strings.Repeat("[", 99) + `"]`, `["` + strings.Repeat("[", 99) + `"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(printedData(tt.text)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
