// Package policy decides which calls of MCP servers' tools may be made.
//
//	Config --New--> Policy --Decide--> Decision --Enter--> the call may be made
//	                  |                   |  confirm
//	                  +--NewLedger--> Ledger (budgets, what was read, flows)
//	                                      +--> Approvals (a person is asked)
//
// It is all rules and bookkeeping: nothing here knows a server, starts a
// program or reads a configuration file. Who calls asks [Policy.Decide] for
// each call, has a person asked where the decision says so, and holds the
// limits of the rules for the time of the call.
//
// # Rules
//
// Rules are looked at in their order. A rule matches a call when its globs do
// and its conditions on the arguments hold. The first one that matches and has
// a verdict decides; without one it is the default. A read-only rule only takes
// away: it refuses tools that do not say of themselves that they read only, and
// leaves all others to the rules after it, so that what a server says of itself
// never permits anything. The limits of all rules that match hold together.
//
// A condition that can't be evaluated never permits: the rule matches, unless
// its action is allow. Arguments that can be read in two ways, because a name
// stands in them twice, are refused before any condition looks at them.
//
// What a plain rule says of a server and a tool is worked out once and kept; a
// call costs one look into a map.
//
// # Concurrency
//
// A [Policy] does not change and is safe for concurrent use, and so is
// everything else here.
package policy
