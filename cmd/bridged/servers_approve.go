package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
)

// maxPart bounds what is shown of one part of a definition, in bytes.
const maxPart = 2000

func approveServerCommand() *cobra.Command {
	var a asking
	cmd := &cobra.Command{
		Use:   "approve [NAME...]",
		Short: "Let servers be used that this project's own files define",
		Long: "Shows what the files of the project in the current folder want to have run or contacted, asks\n" +
			"about each, and remembers the answer for exactly that definition: when it changes, it is asked\n" +
			"about anew. An agent's next call can use the server. The programs themselves are not looked at.",
		RunE: func(cmd *cobra.Command, names []string) error {
			c, p, err := loadFor(cmd)
			if err != nil {
				return err
			}
			if c.Discovery.ProjectConfigs != projectAsk {
				return fmt.Errorf("discovery.project_configs is %q in the configuration, so nothing is asked about", c.Discovery.ProjectConfigs)
			}
			found, err := discoverHere(c, p)
			if err != nil {
				return err
			}
			a.file, a.out, a.in = &trustFile{path: p.trustPath()}, cmd.OutOrStdout(), bufio.NewReader(cmd.InOrStdin())
			if file, ok := cmd.InOrStdin().(*os.File); ok {
				a.terminal = isTerminal(file)
			}
			return a.run(found, names)
		},
	}
	cmd.Flags().BoolVar(&a.all, "all", false, "all that need approval; each is asked about unless --yes is given")
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "approve without asking")
	cmd.Flags().String("config", "", "configuration file (env BRIDGED_CONFIG)")
	return cmd
}

// An asking asks a person about definitions.
type asking struct {
	all, yes bool
	terminal bool // somebody can be asked
	file     *trustFile
	out      io.Writer
	in       *bufio.Reader
}

func (a asking) run(found discovery.Result, names []string) error {
	list, err := wanted(found, names)
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		_, err := fmt.Fprintln(a.out, "no server of this project needs approval")
		return err
	case a.yes && len(names) == 0 && !a.all:
		return errors.New("--yes approves without asking: name the servers, or give --all")
	}
	for _, s := range list {
		if err := a.one(s); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the definitions with the given names, or agent/name, that need
// approval, or all if there are none.
func wanted(found discovery.Result, names []string) ([]discovery.Server, error) {
	if len(names) == 0 {
		return found.Held, nil
	}
	var list []discovery.Server
	for _, name := range names {
		before := len(list)
		for _, s := range found.Held {
			if s.Name == name || s.Agent()+"/"+s.Name == name {
				list = append(list, s)
			}
		}
		if len(list) > before {
			continue
		}
		if slices.ContainsFunc(found.Servers, func(s discovery.Server) bool { return s.Name == name }) {
			continue // it may be used
		}
		return nil, fmt.Errorf("no file of this project defines a server %s that needs approval; `bridged servers approve` shows which do", policy.Plain(name, 200))
	}
	return list, nil
}

// one shows a definition and asks about it.
func (a asking) one(s discovery.Server) error {
	if err := printDefinition(a.out, s); err != nil {
		return err
	}
	if !a.yes {
		if !a.terminal {
			return errors.New("nothing is approved: this asks on a terminal; --yes approves without asking")
		}
		fmt.Fprint(a.out, "Approve? [y/N] ")
		line, err := a.in.ReadString('\n')
		if err != nil && line == "" {
			return errors.New("nobody answered; it is not approved")
		}
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
			_, err := fmt.Fprintf(a.out, "%s is not approved\n\n", plainWord(s.Name))
			return err
		}
	}
	if err := a.file.approve(s); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "%s is approved\n\n", plainWord(s.Name))
	return err
}

// printDefinition shows what a definition would do. Values of variables and
// headers are not shown, they may be keys.
func printDefinition(w io.Writer, s discovery.Server) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "server\t%s\n", plainWord(s.Name))
	row := func(what, text string) {
		if text != "" {
			fmt.Fprintf(t, "  %s\t%s\n", what, text)
		}
	}
	for _, source := range s.Sources {
		row("defined in", policy.Plain(source.String(), maxPart))
	}
	row("runs", commandLine(s))
	if s.Command != "" {
		row("in folder", plainWord(s.Dir("")))
	}
	row("contacts", plainWord(s.URL))
	row("sets variables", plainNames(s.Env))
	row("removes variables", plainWords(s.Unset))
	row("variables from", plainWord(s.EnvFile))
	row("sends headers", plainNames(s.Headers))
	row("takes variables", plainWords(s.Takes()))
	row("tools without asking", plainWords(s.Approved))
	return t.Flush()
}

func commandLine(s discovery.Server) string {
	if s.Command == "" {
		return ""
	}
	return plainWords(append([]string{s.Command}, s.Args...))
}

// plainWord shows a text such that nothing of it is hidden and its ends are
// seen.
func plainWord(text string) string {
	if text == "" {
		return ""
	}
	cut := ""
	if len(text) > maxPart {
		text, cut = text[:maxPart], fmt.Sprintf(" (%d bytes more)", len(text)-maxPart)
	}
	if strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'\\`$;&|<>()*?#", r) }) < 0 {
		return text + cut
	}
	return strconv.QuoteToASCII(text) + cut
}

func plainWords(words []string) string {
	shown := make([]string, len(words))
	for i, word := range words {
		if shown[i] = plainWord(word); word == "" {
			shown[i] = `""`
		}
	}
	return strings.Join(shown, " ")
}

func plainNames(values map[string]string) string {
	return plainWords(slices.Sorted(maps.Keys(values)))
}

func revokeServerCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "revoke [NAME...]",
		Short: "Take back the approval of servers of this project",
		RunE: func(cmd *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return errors.New("name the servers, or give --all")
			}
			p, err := findPaths(os.Getenv)
			if err != nil {
				return err
			}
			if all {
				names = []string{""}
			}
			n := 0
			for _, name := range names {
				more, err := revokeHere(&trustFile{path: p.trustPath()}, name)
				if err != nil {
					return err
				}
				n += more
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d revoked\n", n)
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all of this project")
	return cmd
}

// revokeHere revokes in the current folder and in its parents, up to the
// first that has an approval of that name.
func revokeHere(f *trustFile, name string) (int, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return 0, fmt.Errorf("finding the current folder: %w", err)
	}
	if cwd, err = filepath.EvalSymlinks(cwd); err != nil {
		return 0, fmt.Errorf("finding the current folder: %w", err)
	}
	for at := cwd; ; at = filepath.Dir(at) {
		if n, err := f.revoke(at, name); n > 0 || err != nil || at == filepath.Dir(at) {
			return n, err
		}
	}
}

func approvedServersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "approved",
		Short: "List the servers of projects that you have approved",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := findPaths(os.Getenv)
			if err != nil {
				return err
			}
			list, err := (&trustFile{path: p.trustPath()}).current()
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "PROJECT\tSERVER\tSINCE\tDEFINITION")
			for _, a := range list {
				fmt.Fprintf(t, "%s\t%s\t%s\t%.12s\n", plainWord(a.Project), plainWord(a.Name), a.Since.Local().Format("2006-01-02 15:04"), a.Definition)
			}
			return t.Flush()
		},
	}
}
