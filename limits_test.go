package bridged_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The page on limits has the numbers that the code has.
func TestLimitsAreThoseOfTheCode(t *testing.T) {
	page, err := os.ReadFile("docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| ([^|]+) \\|.* \\| `(pkg/[a-z]+)\\.([A-Za-z]+)` \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 20 {
		t.Fatalf("found but %d limits on the page", len(rows))
	}
	for _, row := range rows {
		value := constant(t, row[2], row[3])
		if !says(row[1], value) {
			t.Errorf("the page says %s of %s.%s, which is %d", row[1], row[2], row[3], value)
		}
	}
}

// says reports whether a text is a number as people write it, of what the number
// counts: bytes, nanoseconds or things.
func says(text string, value int64) bool {
	if size, ok := strings.CutSuffix(text, " MiB"); ok {
		return size == strconv.FormatInt(value>>20, 10) && value%(1<<20) == 0
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return int64(d) == value
	}
	return strings.ReplaceAll(text, ",", "") == strconv.FormatInt(value, 10)
}

// constant evaluates a constant of a package, which is made of numbers, others of
// the package and the units of time.
func constant(t *testing.T, dir, name string) int64 {
	t.Helper()
	values := map[string]ast.Expr{}
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, id := range spec.Names {
					values[id.Name] = spec.Values[i]
				}
			}
			_, inside := n.(*ast.FuncDecl)
			return !inside
		})
	}
	value, err := evaluate(values, &ast.Ident{Name: name})
	if err != nil {
		t.Fatalf("%s.%s: %v", dir, name, err)
	}
	return value
}

func evaluate(values map[string]ast.Expr, e ast.Expr) (int64, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.ParseInt(strings.ReplaceAll(e.Value, "_", ""), 0, 64)
	case *ast.Ident:
		if to, ok := values[e.Name]; ok {
			return evaluate(values, to)
		}
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
		if unit, ok := units[e.Sel.Name]; ok {
			return int64(unit), nil
		}
	case *ast.BinaryExpr:
		x, err := evaluate(values, e.X)
		if err != nil {
			return 0, err
		}
		y, err := evaluate(values, e.Y)
		if err != nil {
			return 0, err
		}
		switch e.Op {
		case token.MUL:
			return x * y, nil
		case token.SHL:
			return x << y, nil
		}
	}
	return 0, fmt.Errorf("%v is no constant that can be read", e)
}
