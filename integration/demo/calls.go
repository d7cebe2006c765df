package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
)

// A call is one run_python call of the demo's agent.
type call struct {
	title   string
	servers []string // loaded by the call
	code    string
	want    []string // what the printed result must hold
	chart   bool     // the result must have a chart
}

// calls are the session, in order. Each uses what the ones before it left.
func calls(p places) []call {
	return []call{
		{
			title: "What is there? All servers that were found can be searched. (Both start now.)",
			code: `
from mcp import runtime

for server in runtime.discovered_servers():
    print("server", server)
for tool in await runtime.search_tool_docs("read the contents of a text file", limit=3):
    print("tool", tool["server"], tool["tool"])`,
			want: []string{"server everything", "server filesystem", "tool filesystem read_text_file"},
		},
		{
			title:   "Call the tools of two servers: in a loop, and side by side.",
			servers: []string{"filesystem", "everything"},
			code: `
import asyncio

folder = "` + p.project + `"
listing = await mcp_filesystem.list_directory(path=folder)
names = sorted(line.split()[-1] for line in listing["content"].splitlines())

texts = {}
for name in names:
    texts[name] = (await mcp_filesystem.read_text_file(path=f"{folder}/{name}"))["content"]

sums = await asyncio.gather(*(mcp_everything.get_sum(a=n, b=n) for n in range(20)))
print(len(texts), "files,", sum(len(t) for t in texts.values()), "bytes that the agent never reads")
print(sums[-1])`,
			want: []string{fmt.Sprintf("%d files", len(months)), "The sum of 19 and 19 is 38."},
		},
		{
			title: "Keep a variable and a function...",
			code: `
import csv, io

orders = [row for text in texts.values() for row in csv.DictReader(io.StringIO(text))]

def revenue(region):
    return sum(int(row["cents"]) for row in orders if row["region"] == region)

len(orders)`,
			want: []string{fmt.Sprint(len(months) * ordersPerMonth)},
		},
		{
			title: "...and use them in a later call.",
			code: `
print({region: revenue(region) for region in ("north", "south")})`,
			want: []string{fmt.Sprintf("{'north': %d, 'south': %d}", revenue("north"), revenue("south"))},
		},
		{
			title: "Group a table, and draw a chart.",
			code: `
import pandas as pd
import matplotlib.pyplot as plt

table = pd.DataFrame(orders)
table["month"] = table["order"].str[:7]
table["cents"] = table["cents"].astype(int)
sales = table.pivot_table(index="month", columns="region", values="cents", aggfunc="sum")
(sales / 100).plot.bar(stacked=True, figsize=(7, 4), title="Sales by region", rot=0)
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.tight_layout()
sales.sum()`,
			want: []string{
				fmt.Sprint(revenue("east")), fmt.Sprint(revenue("north")),
				fmt.Sprint(revenue("south")), fmt.Sprint(revenue("west")),
			},
			chart: true,
		},
	}
}

// check compares an answer with what the call wants.
func (c call) check(a answer) error {
	if a.failed {
		return errors.New("the call is marked as an error")
	}
	for _, want := range c.want {
		if !strings.Contains(a.text, want) {
			return fmt.Errorf("the result lacks %q", want)
		}
	}
	if c.chart && len(a.images) != 1 {
		return fmt.Errorf("the result has %d images, want 1", len(a.images))
	}
	return nil
}

// saveChart checks that an image is a chart's size and writes it to out.
func saveChart(p places, image []byte) error {
	config, err := png.DecodeConfig(bytes.NewReader(image))
	if err != nil {
		return fmt.Errorf("reading the chart: %w", err)
	}
	if config.Width < 300 || config.Height < 200 {
		return fmt.Errorf("reading the chart: %d x %d pixels is too small", config.Width, config.Height)
	}
	path := filepath.Join(p.out, "demo-chart.png")
	if err := os.WriteFile(path, image, 0o644); err != nil {
		return err
	}
	fmt.Printf("  chart (%d x %d): %s\n", config.Width, config.Height, path)
	return nil
}
