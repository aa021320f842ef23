// Command bare-go is a reference that `compare` measures the gateway against: an HTTP server that
// checks that a body is JSON, appends it to Kafka, and answers 202 once all replicas have it. It
// verifies no signature and signs nothing.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The gateway's largest body, and more than the largest of a measurement.
const bodyBytesMax = 16 << 20

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "address of a Kafka broker")
	topic := flag.String("topic", "bare-go", "topic, which is created where it is missing")
	flag.Parse()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(*brokers),
		kgo.DefaultProduceTopic(*topic),
		kgo.AllowAutoTopicCreation(),
		// The gateway's own settings.
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchMaxBytes(bodyBytesMax),
	)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	go func() {
		// The parent holds the other end: it has gone when this returns.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(listener, accept(client)))
}

func accept(client *kgo.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
		if err == nil && !json.Valid(body) {
			err = errors.New("not JSON")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := client.ProduceSync(r.Context(), &kgo.Record{Value: body}).FirstErr(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusAccepted)
	})
}
