package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
)

// listed answers with the page whose number is the cursor.
func (f *fake) listed(r fakeRequest) {
	page := 0
	if r.Params.Cursor != "" {
		if _, err := fmt.Sscan(r.Params.Cursor, &page); err != nil {
			panic(err)
		}
	}
	if page >= len(f.Listed) {
		f.refuse(r.ID, -32603, "no such page", "null")
		return
	}
	f.answer(r.ID, f.Listed[page])
}

// offer answers with what it was asked; what is called bad is refused.
func (f *fake) offer(r fakeRequest, line []byte) {
	var asked struct{ Params json.RawMessage }
	if err := json.Unmarshal(line, &asked); err != nil {
		panic(err)
	}
	if strings.Contains(string(line), "bad") {
		f.refuse(r.ID, -32002, "not found", `{"uri":"bad"}`)
		return
	}
	f.answer(r.ID, `{"asked":`+string(asked.Params)+`,"n":9007199254740993}`)
}

// send sends lines, in which TOKEN is the call's progress token, and answers
// with the answers to the requests among them.
func (f *fake) send(r fakeRequest, lines string) {
	wanted := 0
	for _, line := range strings.Split(lines, "\n") {
		f.write(strings.ReplaceAll(line, "TOKEN", string(r.Params.Meta.ProgressToken)))
		var m fakeRequest
		if err := json.Unmarshal([]byte(line), &m); err == nil && m.ID != nil {
			wanted++
		}
	}
	var got []string
	for range wanted {
		got = append(got, strings.TrimSpace(string(<-f.replies)))
	}
	f.answer(r.ID, textResult(strings.Join(got, "\n")))
}
