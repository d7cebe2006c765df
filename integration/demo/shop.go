package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A shop's orders are what the agent is asked about: one CSV file a month.
var (
	months  = []string{"2026-01", "2026-02", "2026-03", "2026-04", "2026-05", "2026-06"}
	regions = []string{"north", "south", "east", "west"}
)

const ordersPerMonth = 40

// price is some price in cents, the same in every run. Regions differ, and
// months do a little.
func price(month, order int) int {
	some := (month*7919 + order*104729) % 2500
	return 500 + some*(1+order%len(regions)) + 150*month
}

// openShop writes the orders into the project folder, and the definitions of
// the MCP servers into the agent's home, as a user would have them.
func openShop(p places) error {
	for m, month := range months {
		var csv strings.Builder
		csv.WriteString("order,region,cents\n")
		for o := range ordersPerMonth {
			fmt.Fprintf(&csv, "%s-%03d,%s,%d\n", month, o, regions[o%len(regions)], price(m, o))
		}
		if err := os.WriteFile(filepath.Join(p.project, month+".csv"), []byte(csv.String()), 0o644); err != nil {
			return err
		}
	}
	bin := filepath.Join(p.cache, "mcpservers", "bin")
	definitions, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{
		"filesystem": map[string]any{
			"command": filepath.Join(bin, "mcp-server-filesystem"),
			"args":    []string{p.project},
		},
		"everything": map[string]any{
			"command": filepath.Join(bin, "mcp-server-everything"),
		},
	}}, "", "  ")
	if err != nil {
		return err
	}
	folder := filepath.Join(p.home, "MCPs")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "shop.json"), definitions, 0o600)
}

// revenue returns what a region sold in all months, in cents.
func revenue(region string) int {
	sum := 0
	for m := range months {
		for o := range ordersPerMonth {
			if regions[o%len(regions)] == region {
				sum += price(m, o)
			}
		}
	}
	return sum
}
