// Command go sends the commands that it reads by go-redis, one a line, words between tabs, and
// writes what came of each: HOST:PORT TOKEN VERSION are its arguments.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

func main() {
	version, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: os.Args[1], Password: os.Args[2], Protocol: version, ClientName: "test"})
	defer client.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var args []any
		for word := range strings.SplitSeq(lines.Text(), "\t") {
			args = append(args, word)
		}
		got, err := client.Do(context.Background(), args...).Result()
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println(strings.Trim(fmt.Sprint(got), "[]"))
	}
}
