package ops

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func TestPageIsServedWithItsFiles(t *testing.T) {
	mux := http.NewServeMux()
	HandlePage(mux)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	page := get("/")
	if page.Code != http.StatusOK || page.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("GET /: %d %s", page.Code, page.Header())
	}
	// What the page and its modules name is there, and has its type.
	names := map[string]string{}
	find := func(text, pattern string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names["/web/"+m[1]] = text
		}
	}
	find(page.Body.String(), `(?:href|src)="/web/([^"]+)"`)
	find(get("/web/app.js").Body.String(), `from "\./([^"]+)"`)
	if len(names) < 6 {
		t.Errorf("the page is made of %d files", len(names))
	}
	for name := range names {
		w := get(name)
		kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		want := map[string]string{"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}[name[strings.LastIndexByte(name, '.')+1:]]
		if w.Code != http.StatusOK || kind != want {
			t.Errorf("GET %s: %d %q, want 200 %q", name, w.Code, kind, want)
		}
	}
	for _, path := range []string{"/web/", "/web/index.html", "/web/../ops.go", "/index.html"} {
		if w := get(path); w.Code == http.StatusOK {
			t.Errorf("GET %s: got %q", path, w.Body)
		}
	}
}

func TestPageHearsOfEveryEvent(t *testing.T) {
	feed, err := pageFiles.ReadFile("web/feed.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range EventTypes() {
		if !strings.Contains(string(feed), fmt.Sprintf("%q", kind)) {
			t.Errorf("feed.js does not listen to %s", kind)
		}
	}
}

func TestPageFilesNeedNoTokenAndOpenNothingElse(t *testing.T) {
	mux := Handler(func() Status { return Status{Version: "secret"} }, nil)
	HandlePage(mux)
	h := Guard(mux, "0123456789abcdef")
	for path, open := range map[string]bool{"/web/style.css": true, "/web/icon.svg": true, "/": false, "/web/../status": false, "/web/%2e%2e/status": false, "/web//../status": false} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
		if (w.Code == http.StatusOK) != open || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("GET %s without a token: %d %q", path, w.Code, w.Body)
		}
	}
}

// The policy for content that browsers hold the page to forbids all of these.
func TestPageHasNoInlineCodeAndNamesNoOtherHost(t *testing.T) {
	entries, err := pageFiles.ReadDir("web")
	if err != nil {
		t.Fatal(err)
	}
	bad := regexp.MustCompile(`(?i)https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|<style|\sstyle=|\son[a-z]+=|<script>|javascript:`)
	for _, e := range entries {
		data, err := pageFiles.ReadFile("web/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "http://www.w3.org/2000/svg", "") // a name that nobody fetches
		if found := bad.FindString(text); found != "" {
			t.Errorf("%s has %q", e.Name(), found)
		}
	}
}
