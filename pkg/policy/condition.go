package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
)

const (
	// maxCost bounds the work of one CEL expression, in its own units: some
	// hundred milliseconds at most.
	maxCost = 1_000_000

	// maxEvaluation is the longest that one may take, whatever its cost says.
	maxEvaluation = time.Second
)

// An input is one call as the conditions of rules see it. It belongs to one
// goroutine.
type input struct {
	Subject
	raw json.RawMessage

	args map[string]any // of raw, once parsed
}

// parse reads the arguments, once.
func (in *input) parse() error {
	if in.args != nil {
		return nil
	}
	args, err := parseArgs(in.raw)
	if err != nil {
		return err
	}
	in.args = args
	return nil
}

// environment is what a CEL expression may use.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("tool", cel.StringType), cel.Variable("server", cel.StringType),
		cel.Variable("client", cel.StringType), cel.Variable("project", cel.StringType),
		cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(maxPattern), cel.ParserRecursionLimit(100),
	)
})

// compileWhen compiles a CEL expression, whose value is true or false.
func compileWhen(text string) (cel.Program, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the expression is longer than %d bytes", maxPattern)
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("preparing CEL: %w", err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("the expression can't be compiled: %s; it may use args, tool, server, client and project", oneLine(issues.Err().Error()))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the expression is a %s, and it has to be true or false", t)
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(1000))
	if err != nil {
		return nil, fmt.Errorf("the expression can't be prepared: %s", oneLine(err.Error()))
	}
	return program, nil
}

// CheckWhen says what is wrong with a CEL expression.
func CheckWhen(text string) error {
	_, err := compileWhen(text)
	return err
}

// oneLine keeps the first line of what CEL says, which quotes the expression
// with a pointer into it on further ones.
func oneLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return clip(strings.TrimPrefix(line, "ERROR: "), 300)
}

// holds evaluates a CEL expression.
func holds(program cel.Program, in *input) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxEvaluation)
	defer cancel()
	value, _, err := program.ContextEval(ctx, map[string]any{
		"args": in.args, "tool": in.Tool, "server": in.Server, "client": in.Client, "project": in.Project,
	})
	if err != nil {
		return false, err
	}
	is, ok := value.Value().(bool)
	if !ok {
		return false, errors.New("its value is neither true nor false")
	}
	return is, nil
}

// An argument is a compiled [Arg].
type argument struct {
	path    []string
	pattern *regexp.Regexp
}

// CheckPattern says what is wrong with a regular expression.
func CheckPattern(text string) error {
	_, err := compilePattern(text)
	return err
}

func compilePattern(text string) (*regexp.Regexp, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the regular expression is longer than %d bytes", maxPattern)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the regular expression can't be compiled: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re, nil
}

func compileArg(a Arg) (*argument, error) {
	switch {
	case a.Path == "":
		return nil, errors.New("arg has no path: name an argument, such as path = \"repo.owner\"")
	case a.Matches == "":
		return nil, errors.New("arg has no matches: write a regular expression, such as matches = \"^acme$\"")
	}
	path := strings.Split(a.Path, ".")
	if slices.Contains(path, "") {
		return nil, fmt.Errorf("arg.path %q has an empty part: write names with one dot between", clip(a.Path, 60))
	}
	pattern, err := compilePattern(a.Matches)
	if err != nil {
		return nil, fmt.Errorf("arg.matches: %w", err)
	}
	return &argument{path, pattern}, nil
}

// holds reports whether the values at the path match: one of them, or all and
// at least one.
func (a *argument) holds(args map[string]any, all bool) bool {
	values := leaves(nil, args, a.path)
	if all {
		return len(values) > 0 && !slices.ContainsFunc(values, func(text string) bool { return !a.pattern.MatchString(text) })
	}
	return slices.ContainsFunc(values, a.pattern.MatchString)
}

// leaves adds the values at a path, and of lists and objects there all that is
// in them, as texts.
func leaves(found []string, v any, path []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for name, entry := range v {
			if rest, ok := step(path, name); ok {
				found = leaves(found, entry, rest)
			}
		}
		return found
	case []any:
		for i, entry := range v {
			if rest, ok := step(path, fmt.Sprint(i)); ok {
				found = leaves(found, entry, rest)
			}
		}
		return found
	}
	if len(path) > 0 {
		return found
	}
	return append(found, leaf(v))
}

// step goes one entry down a path. Past the path's end all entries are meant.
func step(path []string, name string) (rest []string, ok bool) {
	if len(path) == 0 {
		return nil, true
	}
	return path[1:], path[0] == "*" || path[0] == name
}

// leaf writes a value that holds no other: a text as it is, all else as JSON.
func leaf(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // a number past what JSON takes
	}
	return string(raw)
}
