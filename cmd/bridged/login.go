package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy"
)

// loginFlags are what a person may say about a login.
type loginFlags struct {
	noBrowser bool
	clientID  string
	secretVar string
	scopes    []string
	port      int
	wait      duration
}

func loginCommand() *cobra.Command {
	f := loginFlags{wait: duration(proxy.DefaultLoginWait)}
	cmd := &cobra.Command{
		Use:   "login SERVER",
		Short: "Log in to a remote MCP server (OAuth)",
		Long: "Finds the server as the daemon would for an agent in the current folder, shows the page where\n" +
			"one logs in to it, and keeps what that brings. A daemon that runs uses it at the next call.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := loginTo(args[0])
			if err != nil {
				return err
			}
			if err := f.fill(&o); err != nil {
				return err
			}
			o.Show = func(address string) error { return f.show(cmd.OutOrStdout(), address) }
			if err := proxy.Login(cmd.Context(), o); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "logged in to %s\n", o.Server.Name)
			return err
		},
	}
	cmd.Flags().BoolVar(&f.noBrowser, "no-browser", false, "only print the page's address")
	cmd.Flags().StringVar(&f.clientID, "client-id", "", "client that was registered by hand, where none registers by itself")
	cmd.Flags().StringVar(&f.secretVar, "client-secret-env", "", "environment variable that holds that client's secret")
	cmd.Flags().StringSliceVar(&f.scopes, "scope", nil, "what to ask for; by default what the server says it needs")
	cmd.Flags().IntVar(&f.port, "port", 0, "port on 127.0.0.1 for the way back; by default any")
	cmd.Flags().Var(&f.wait, "timeout", "how long to wait for the person")
	return cmd
}

func logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout SERVER",
		Short: "Forget the login to a remote MCP server",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := loginTo(args[0])
			if err != nil {
				return err
			}
			was, err := proxy.Logout(o)
			if err != nil {
				return err
			}
			if !was {
				return fmt.Errorf("nobody is logged in to %s", o.Server.Name)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "logged out of %s\n", o.Server.Name)
			return err
		},
	}
}

// fill adds what the flags say, and where they don't what the definition does.
func (f *loginFlags) fill(o *proxy.LoginOptions) error {
	said := o.Server.OAuth
	o.ClientID, o.Port, o.Wait = cmp.Or(f.clientID, said.ClientID), cmp.Or(f.port, said.Port), time.Duration(f.wait)
	if o.Scopes = f.scopes; len(o.Scopes) == 0 {
		o.Scopes = said.Scopes
	}
	if f.secretVar == "" {
		return nil
	}
	secret, ok := os.LookupEnv(f.secretVar)
	if !ok || o.ClientID == "" {
		return fmt.Errorf("--client-secret-env: give --client-id too, and set the variable %s", f.secretVar)
	}
	o.ClientSecret = secret
	return nil
}

// loginTo finds a server, by name or alias, in the current folder.
func loginTo(name string) (proxy.LoginOptions, error) {
	c, p, err := configHere()
	if err != nil {
		return proxy.LoginOptions{}, err
	}
	found, err := discoverHere(c, p)
	if err != nil {
		return proxy.LoginOptions{}, err
	}
	server, err := pick(found, name)
	if err != nil {
		return proxy.LoginOptions{}, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return proxy.LoginOptions{}, fmt.Errorf("finding the current folder: %w", err)
	}
	return proxy.LoginOptions{
		Server: server, TokenDir: p.tokens(), Getenv: os.LookupEnv, Home: os.Getenv("HOME"), Cwd: cwd, Version: version,
	}, nil
}

// pick returns a server by name or alias.
func pick(found discovery.Result, name string) (discovery.Server, error) {
	if err := usable(found, name); err != nil {
		return discovery.Server{}, err
	}
	names := make([]string, len(found.Servers))
	for i, s := range found.Servers {
		names[i] = s.Name
	}
	aliases := discovery.Aliases(names)
	for _, by := range []func(string) string{func(n string) string { return n }, func(n string) string { return aliases[n] }} {
		for _, s := range found.Servers {
			if by(s.Name) == name {
				return s, nil
			}
		}
	}
	if near := discovery.Nearest(name, names, 3); len(near) > 0 {
		return discovery.Server{}, fmt.Errorf("there is no server %s here; did you mean %s?", name, strings.Join(near, " or "))
	}
	return discovery.Server{}, fmt.Errorf("there is no server %s here; `bridged servers` shows which there are", name)
}

// show tells the person where to log in, and opens the page where there is a
// screen.
func (f *loginFlags) show(w io.Writer, address string) error {
	if _, err := fmt.Fprintf(w, "Log in on this page; it leads back here:\n\n  %s\n\n", address); err != nil {
		return err
	}
	if program := browser(goruntime.GOOS, os.Getenv); program != "" && !f.noBrowser {
		_ = exec.Command(program, address).Start() // the address is on the screen
	}
	return nil
}

// browser returns the program that opens a page, or nothing where no person
// would see it.
func browser(goos string, getenv func(string) string) string {
	switch {
	case goos == "darwin":
		return "open"
	case getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != "":
		return "xdg-open"
	}
	return ""
}
