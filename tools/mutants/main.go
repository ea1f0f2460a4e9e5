// Command mutants plants small wrong changes in Headgate, one after the other, and runs the test
// that is to fail by each:
//
//	go run ./mutants [-area AREA] [-all] [-jobs N] ROOT
//
// They stand in planted/AREA.yaml. Each replaces a text, which is in its file once. Nothing in
// the tree at ROOT is changed: the compiler is told to read another file in its place.
//
// With -all the whole package is tested for each, in place of one test, to find those that fail.
// The exit code is 1 when one survives that is not said to, or the other way round.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
)

func main() {
	area := flag.String("area", "", "plant those of one area alone")
	all := flag.Bool("all", false, "run all tests of a package, and tell which fail")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many are tested at a time")
	flag.Parse()
	if flag.NArg() != 1 || *jobs < 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-area AREA] [-all] [-jobs N] ROOT")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	wrong, err := run(ctx, flag.Arg(0), *area, *all, *jobs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// run plants the bugs and prints what became of them, and returns how many did not do as they
// are said to.
func run(ctx context.Context, root, area string, all bool, jobs int) (wrong int, err error) {
	bugs, err := load(os.DirFS("mutants/planted"))
	if err != nil {
		return 0, err
	}
	if area != "" {
		bugs = of(bugs, area)
	}
	if len(bugs) == 0 {
		return 0, fmt.Errorf("no bugs in area %q; hint: the names of files in planted", area)
	}
	outcomes := make([]outcome, len(bugs))
	var running sync.WaitGroup
	turns := make(chan int)
	for range jobs {
		running.Go(func() {
			for i := range turns {
				outcomes[i] = plant(ctx, root, &bugs[i], all)
				fmt.Printf("%-9s %s: %s: %s%s\n", outcomes[i].word, bugs[i].area, bugs[i].File, bugs[i].What, outcomes[i].more())
			}
		})
	}
	for i := range bugs {
		if ctx.Err() == nil {
			turns <- i
		}
	}
	close(turns)
	running.Wait()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return report(bugs, outcomes), nil
}

// report prints a table by area, and returns how many bugs did not do as they are said to.
func report(bugs []bug, outcomes []outcome) (wrong int) {
	var areas []string
	counts := map[string]*[3]int{} // killed, survived, neither
	for i, b := range bugs {
		c := counts[b.area]
		if c == nil {
			c = new([3]int)
			counts[b.area], areas = c, append(areas, b.area)
		}
		switch outcomes[i].word {
		case killed:
			c[0]++
		case survived:
			c[1]++
		default:
			c[2]++
		}
		if outcomes[i].word == killed != (b.Survives == "") || outcomes[i].word == unfit {
			wrong++
		}
	}
	fmt.Print("\n| area | planted | killed | survived |\n|---|---|---|---|\n")
	var sum [3]int
	for _, area := range areas {
		c := counts[area]
		fmt.Printf("| %s | %d | %d | %d |\n", area, c[0]+c[1]+c[2], c[0], c[1])
		for i := range sum {
			sum[i] += c[i]
		}
	}
	fmt.Printf("| **all** | %d | %d | %d |\n", len(bugs), sum[0], sum[1])
	if wrong > 0 {
		fmt.Printf("\n%d did not do as they are said to.\n", wrong)
	}
	return wrong
}

// of returns the bugs of an area.
func of(bugs []bug, area string) (some []bug) {
	for _, b := range bugs {
		if b.area == area {
			some = append(some, b)
		}
	}
	return some
}

// more returns what there is to say beside the word.
func (o *outcome) more() string {
	if o.about == "" {
		return ""
	}
	return "\n          " + strings.ReplaceAll(strings.TrimSpace(o.about), "\n", "\n          ")
}
