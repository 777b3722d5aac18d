// Works while the sidecar at the given address leads:
// go run client.go http://127.0.0.1:4040/v1/elections/orders
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

type lease struct {
	Token     int64
	Remaining int64 `json:"lease_remaining_ms"`
}

// holds returns the lease, or false while another candidate leads or the sidecar does not answer.
func holds(client *http.Client, election string) (held lease, ok bool) {
	reply, err := client.Get(election + "/token")
	if err != nil {
		return held, false
	}
	defer reply.Body.Close()
	err = json.NewDecoder(reply.Body).Decode(&held)
	return held, err == nil && reply.StatusCode == http.StatusOK
}

func main() {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{}} // No proxy.
	for ; ; time.Sleep(500 * time.Millisecond) {
		sent := time.Now() // This clock stops while the machine is suspended.
		held, ok := holds(client, os.Args[1])
		if ok && time.Since(sent) < time.Duration(held.Remaining)*time.Millisecond {
			fmt.Println("write with token", held.Token) // One short write, which carries the token.
		}
	}
}
