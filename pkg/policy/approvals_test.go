package policy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAQuestionWaitsForItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Approvals
		changed := a.Changed()
		got := make(chan Answer, 1)
		go func() {
			answer, err := a.Ask(t.Context(), Question{Server: "s", Tool: "t"}, time.Minute, nil)
			if err != nil {
				t.Error(err)
			}
			got <- answer
		}()
		<-changed
		list := a.List()
		if len(list) != 1 || list[0].Tool != "t" || list[0].Expires.Sub(list[0].Since) != time.Minute {
			t.Fatalf("waiting: %+v", list)
		}
		if err := a.Answer("nonsense", Answer{Allow: true}); !errors.Is(err, ErrNoQuestion) {
			t.Errorf("a wrong id: got %v", err)
		}
		if err := a.Answer(list[0].ID, Answer{Allow: true, Always: true}); err != nil {
			t.Fatal(err)
		}
		if answer := <-got; answer != (Answer{true, true}) {
			t.Errorf("answer: got %v", answer)
		}
		if err := a.Answer(list[0].ID, Answer{}); !errors.Is(err, ErrNoQuestion) {
			t.Errorf("a second answer: got %v", err)
		}
		if n := len(a.List()); n != 0 {
			t.Errorf("%d questions are left", n)
		}
	})
}

func TestAQuestionEndsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Approvals
		if _, err := a.Ask(t.Context(), Question{}, time.Second, nil); !errors.Is(err, ErrExpired) {
			t.Errorf("after its time: got %v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("given up")) })
		if _, err := a.Ask(ctx, Question{}, time.Minute, nil); err == nil || err.Error() != "given up" {
			t.Errorf("when it is given up: got %v", err)
		}
		if n := len(a.List()); n != 0 {
			t.Errorf("%d questions are left", n)
		}
	})
}

func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Approvals{Most: 3}
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			go a.Ask(ctx, Question{}, time.Minute, nil) //nolint:errcheck // it is canceled
		}
		synctest.Wait()
		if _, err := a.Ask(ctx, Question{}, time.Minute, nil); !errors.Is(err, ErrFlood) {
			t.Errorf("got %v, want %v", err, ErrFlood)
		}
		cancel()
		synctest.Wait()
		if n := len(a.List()); n != 0 {
			t.Errorf("%d questions are left", n)
		}
	})
}

func TestAnAnswerForTheSessionAnswersWhatIsAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Approvals
		answers := make(chan Answer, 4)
		for _, q := range []Question{{Scope: 1, Tool: "t"}, {Scope: 1, Tool: "t", Arguments: "{}"}, {Scope: 2, Tool: "t"}, {Scope: 1, Tool: "u"}} {
			go func() {
				answer, err := a.Ask(t.Context(), q, time.Hour, nil)
				if err == nil {
					answers <- answer
				}
			}()
			synctest.Wait()
			time.Sleep(time.Second)
		}
		if err := a.Answer(a.List()[0].ID, Answer{Allow: true, Always: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(answers) != 2 || len(a.List()) != 2 {
			t.Errorf("%d were answered and %d wait, want 2 and 2", len(answers), len(a.List()))
		}
		for _, p := range a.List() {
			if err := a.Answer(p.ID, Answer{}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAQuestionIsAskedInTwoPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Approvals
		ended := false
		answer, err := a.Ask(t.Context(), Question{}, time.Minute, func(_ context.Context, id string) {
			time.Sleep(time.Second)
			if err := a.Answer(id, Answer{Allow: true}); err != nil {
				t.Error(err)
			}
			ended = true
		})
		if err != nil || !answer.Allow || !ended {
			t.Errorf("the other place: got %v, %v, ended %v", answer, err, ended)
		}
		ended = false
		_, err = a.Ask(t.Context(), Question{}, time.Minute, func(ctx context.Context, _ string) {
			<-ctx.Done()
			ended = true
		})
		if !errors.Is(err, ErrExpired) || !ended {
			t.Errorf("without an answer: got %v, ended %v", err, ended)
		}
	})
}

func TestWhatIsShownCannotHideAnything(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"plain text", "create_issue äß 漢字", "create_issue äß 漢字"},
		{"an escape sequence", "a\x1b[2Jb", `a\u001b[2Jb`},
		{"line ends", "a\r\nb", `a\u000d\u000ab`},
		{"another direction", "a\u202eb", `a\u202eb`},
		{"what can't be seen", "a\u200bb\u00a0c", `a\u200bb\u00a0c`},
		{"C1", "a\u009bb", `a\u009bb`},
	} {
		if got := Plain(row.text, 100); got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
	if got := PlainJSON([]byte("{ \"a\" :\n\n 1}"), 100); got != `{"a":1}` {
		t.Errorf("JSON: got %s", got)
	}
	if got := Plain("abcdef", 3); got != "abc..." {
		t.Errorf("a long text: got %s", got)
	}
}
