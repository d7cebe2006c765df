package bridge

import (
	"fmt"
	"unicode/utf8"

	"github.com/bridged/bridged/pkg/sandbox"
	"github.com/bridged/bridged/pkg/tokens"
)

// fitted is what is shown of some texts, and how many characters each lacks.
type fitted struct {
	texts   []string
	missing []int64
}

// fit shortens texts so that together they keep to the view's budget.
func (v view) fit(texts ...tokens.Text) fitted {
	shown, missing := tokens.Fit(v.budget, texts...)
	return fitted{shown, missing}
}

// envelope is what a document may cost besides what is fitted to the budget, in
// tokens: names of fields, a note or two.
const envelope = 150

// tight is [view.structure], with less in it where the document would break the
// budget: quotes, backslashes and ends of lines cost more there than as text.
func (v view) tight(out printed, r sandbox.Result) (structured, []string) {
	told, cut := v.structure(out, r)
	if v.mode == Compact {
		return told, cut
	}
	text, err := v.document(told)
	most := v.budget + v.budget/4 + envelope // a quarter is for code that was left running
	if err != nil || tokens.Fits(text, most) {
		return told, cut
	}
	v.budget = v.budget * v.budget / max(tokens.Count(text), v.budget)
	return v.structure(out, r)
}

// behind shortens what code printed that earlier calls left running: it must not
// crowd out what was asked for.
func (v view) behind(output tokens.Text) string {
	shown, _ := tokens.Fit(v.budget/4, output)
	return shown[0]
}

// rest says how to have what is missing of a result's output, value and
// traceback.
func rest(r sandbox.Result, output, value, trace int64) (notices []string) {
	if output > 0 {
		where := r.Kept
		if where == "" {
			where = "Filter before printing."
		}
		notices = append(notices, fmt.Sprintf("%d characters of the output were cut. %s", output, where))
	}
	if value > 0 {
		whole := r.Whole
		if whole == "" {
			whole = "_"
		}
		notices = append(notices, fmt.Sprintf("%d characters of the value were cut: %s is all of it, so take the parts of it that you need", value, whole))
	}
	if trace > 0 {
		notices = append(notices, fmt.Sprintf("%d characters of the traceback were cut", trace))
	}
	return notices
}

// markRoom is kept free for the words that stand where a line was cut, in bytes.
const markRoom = 40

// cutMiddle bounds one line of ours, in bytes, which it cuts between characters.
func cutMiddle(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	room := max(limit-markRoom, 0)
	head, end := room/2, len(s)-room/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	return fmt.Sprintf("%s …[%d characters cut]… %s", s[:head], utf8.RuneCountInString(s[head:end]), s[end:])
}
