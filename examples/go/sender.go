// A sender of usage receipts in one file, with Go's standard library only. It signs a receipt for each
// line of its input with an Ed25519 key, and sends all of them as one signed batch.
//
//	receipts keygen --out client.key
//	echo '{"url":"https://news.example/lead","purpose":"inference","context":"answer","content":"the text"}' |
//	  go run sender.go -url http://127.0.0.1:8080 -key client.key \
//	    -client-id 018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10 -name Atlas -version 3.1 -organization 'Example Labs'
//
// It keeps nothing on the disk: a program that must not lose receipts in a crash uses `receipts relay`
// (docs/relay.md). docs/receipt-format.md describes the format, docs/sender-mistakes.md usual mistakes.
package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"sort"
	"strings"
	"time"
	"unicode/utf16"
)

type object = map[string]any

// writeString appends a string in canonical form (RFC 8785). encoding/json escapes more: <, >, &,
// U+2028 and U+2029.
func writeString(out *bytes.Buffer, text string) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	out.WriteByte('"')
	for _, character := range text {
		if escape, ok := short[character]; ok {
			out.WriteString(escape)
		} else if character < 0x20 {
			fmt.Fprintf(out, `\u%04x`, character)
		} else {
			out.WriteRune(character)
		}
	}
	out.WriteByte('"')
}

// before says whether a name comes before another: they are compared by UTF-16 code units.
func before(a, b string) bool {
	left, right := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
	for i := 0; i < len(left) && i < len(right); i++ {
		if left[i] != right[i] {
			return left[i] < right[i]
		}
	}
	return len(left) < len(right)
}

// canonical appends a value in canonical form. A receipt has strings only, and a batch an array.
func canonical(out *bytes.Buffer, value any) {
	switch value := value.(type) {
	case string:
		writeString(out, value)
	case []any:
		out.WriteByte('[')
		for i, element := range value {
			if i > 0 {
				out.WriteByte(',')
			}
			canonical(out, element)
		}
		out.WriteByte(']')
	case object:
		names := make([]string, 0, len(value))
		for name := range value {
			names = append(names, name)
		}
		sort.Slice(names, func(i, j int) bool { return before(names[i], names[j]) })
		out.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				out.WriteByte(',')
			}
			writeString(out, name)
			out.WriteByte(':')
			canonical(out, value[name])
		}
		out.WriteByte('}')
	default:
		panic(fmt.Sprintf("a receipt has strings only, and not %T", value))
	}
}

func canonicalBytes(value any) []byte {
	var out bytes.Buffer
	canonical(&out, value)
	return out.Bytes()
}

// sign adds the signature over the members so far.
func sign(members object, key ed25519.PrivateKey) {
	signature := ed25519.Sign(key, canonicalBytes(members))
	members["signature"] = base64.StdEncoding.EncodeToString(signature)
	members["signatureAlgorithm"] = "Ed25519"
}

// readKey returns the key of a PKCS#8 PEM file, and its public half as SPKI PEM.
func readKey(path string) (ed25519.PrivateKey, string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, "", fmt.Errorf("%s isn't a private key in PKCS#8 PEM: openssl genpkey -algorithm ed25519", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, "", err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, "", fmt.Errorf("%s is a %T: this example signs with Ed25519", path, parsed)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, "", err
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), nil
}

// newUUID returns a random UUID, of version 4.
func newUUID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err)
	}
	return uuid(id[:], 4)
}

func uuid(id []byte, version byte) string {
	id[6], id[8] = id[6]&0x0f|version<<4, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// entryID returns the ID of content that its publisher doesn't list: the UUID of version 5 of its
// canonical URL. For listed content, GET /api/v1/entries?url=... answers the ID.
func entryID(canonicalURL string) string {
	namespace, _ := hex.DecodeString("6ba7b8119dad11d180b400c04fd430c8")
	hash := sha1.Sum(append(namespace, canonicalURL...))
	return uuid(hash[:16], 5)
}

// A use of content: a line of the input. The URL is in canonical form (docs/receipt-format.md).
type use struct {
	URL, Purpose, Context, Content, Publisher, EntryID string
}

// receipt returns the signed receipt of a use.
func receipt(used use, client object, key ed25519.PrivateKey) (object, error) {
	address, err := url.Parse(used.URL)
	if err != nil {
		return nil, err
	}
	if used.Publisher == "" {
		used.Publisher = address.Hostname()
	}
	if used.EntryID == "" {
		used.EntryID = entryID(used.URL)
	}
	hash := sha256.Sum256([]byte(used.Content))
	members := object{
		"version":   "1.0.0",
		"receiptId": newUUID(),
		"timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		"content": object{
			"entryId": used.EntryID, "url": used.URL, "publisher": used.Publisher,
			"contentHash": "sha256:" + hex.EncodeToString(hash[:]),
		},
		"client": client,
		"usage":  object{"purpose": used.Purpose, "context": used.Context},
	}
	sign(members, key)
	return members, nil
}

// refusals are the types of the gateway's problems that judge a batch.
var refusals = regexp.MustCompile(`(^|/)problems/(invalid_(json|receipt|batch)|wrong_address|` +
	`bad_(batch_)?signature|client_key_(unknown|revoked)|(decoded_)?body_too_large)$`)

// post sends the same bytes until the gateway has acknowledged or refused them. Everything else, such
// as a proxy's page, may pass.
func post(address string, body []byte) (string, error) {
	digest := sha256.Sum256(body)
	wanted := "sha256:" + hex.EncodeToString(digest[:])
	pause := 200 * time.Millisecond
	for attempt := 1; ; attempt++ {
		status, text, err := postOnce(address, body)
		var answer struct {
			Type, Detail, Status string
			Acknowledgement      struct{ RequestDigest string }
		}
		isJSON := err == nil && json.Unmarshal(text, &answer) == nil
		if isJSON && status == http.StatusAccepted && answer.Acknowledgement.RequestDigest == wanted {
			// Save it with the body: docs/acknowledgements.md shows how its signature is verified.
			return string(text), nil
		}
		if isJSON && status/100 == 4 && refusals.MatchString(answer.Type) {
			return "", fmt.Errorf("refused: %d %s", status, answer.Detail)
		}
		if attempt == 10 {
			return "", fmt.Errorf("no acknowledgement after %d requests: status %d, %v", attempt, status, err)
		}
		time.Sleep(pause/2 + time.Duration(mathrand.Int63n(int64(pause))))
		if pause < 10*time.Second {
			pause *= 2
		}
	}
}

func postOnce(address string, body []byte) (int, []byte, error) {
	client := http.Client{Timeout: 30 * time.Second}
	answer, err := client.Post(address, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, text, err
}

func run() error {
	address := flag.String("url", "http://127.0.0.1:8080", "the gateway's address")
	keyFile := flag.String("key", "client.key", "Ed25519 key in PKCS#8 PEM")
	id := flag.String("client-id", "", "UUID of the model or product, the same in all its receipts")
	name := flag.String("name", "", "name of the model or product")
	version := flag.String("version", "", "version of the model or product")
	organization := flag.String("organization", "", "organization that operates it")
	flag.Parse()
	key, public, err := readKey(*keyFile)
	if err != nil {
		return err
	}
	client := object{
		"id": *id, "name": *name, "version": *version, "organization": *organization, "publicKey": public,
	}
	var receipts []any
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var used use
		if err := json.Unmarshal(lines.Bytes(), &used); err != nil {
			return err
		}
		signed, err := receipt(used, client, key)
		if err != nil {
			return err
		}
		receipts = append(receipts, signed)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	batch := object{"version": "1.0.0", "batchId": newUUID(), "receipts": receipts}
	sign(batch, key)
	answer, err := post(strings.TrimRight(*address, "/")+"/api/v1/receipts/batch", canonicalBytes(batch))
	if err == nil {
		fmt.Println(answer)
	}
	return err
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sender:", err)
		os.Exit(1)
	}
}
