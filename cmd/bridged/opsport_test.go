package main

import (
	"testing"

	"github.com/bridged/bridged/pkg/ops"
)

func TestAPortForOthersIsRefused(t *testing.T) {
	for listen, say := range map[string]string{
		"0.0.0.0:7070": "use 127.0.0.1 or [::1]",
		":7070":        "use 127.0.0.1 or [::1]",
		"7070":         "such as 127.0.0.1:7070",
	} {
		wantRefused(t, "[ops]\nlisten = \""+listen+"\"\n", "ops.listen \""+listen+"\"", say)
	}
}

func TestWhereOperationsAreAnswered(t *testing.T) {
	for _, row := range []struct {
		access ops.Access
		want   string
	}{
		{ops.Access{Socket: "/s"}, "/s"},
		{ops.Access{Socket: "/s", URL: "http://x/", TokenFile: "/t"}, "http://x/, token in /t"},
		{ops.Access{Socket: "/s", Error: "taken"}, "/s, and the port of ops.listen cannot be used: taken"},
	} {
		if got := describeAccess(row.access); got != row.want {
			t.Errorf("%+v: got %q, want %q", row.access, got, row.want)
		}
	}
}
