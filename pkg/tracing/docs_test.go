package tracing

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The page for people names each attribute that spans have.
func TestTheDocumentationNamesEveryAttribute(t *testing.T) {
	page, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "tracing.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		key, literal := call.Args[0].(*ast.BasicLit)
		if fun, ok := call.Fun.(*ast.SelectorExpr); !ok || !literal || fun.Sel.Name != "Key" {
			return true
		}
		name, err := strconv.Unquote(key.Value)
		if err != nil {
			t.Fatal(err)
		}
		if found++; !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/tracing.md does not name %s", name)
		}
		return true
	})
	if found < 15 {
		t.Errorf("only %d attributes were found", found)
	}
}
