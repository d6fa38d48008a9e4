// Command receiver is the OpenTelemetry Collector's OTLP receiver, on loopback, and nothing behind it: the first line on
// standard output says where it listens, each further one is a batch of spans as the receiver handed it on, in OTLP's
// JSON form. It ends with its standard input. With a file it hands on that file's batches, read as the collector's file
// receiver reads them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	var err error
	if len(os.Args) > 1 {
		err = file(os.Args[1])
	} else {
		err = serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

// printer is a consumer that prints.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (*printer) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (p *printer) ConsumeTraces(_ context.Context, batch ptrace.Traces) error {
	line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(batch)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = fmt.Fprintf(p.out, "%s\n", line)
	return err
}

func serve() error {
	ctx, out := context.Background(), &printer{out: os.Stdout}
	r, address, err := listen(ctx, out)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"http": "http://" + address}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return r.Shutdown(ctx)
}

// listen starts a receiver on a free port, which the receiver itself cannot choose and tell: another program may take it
// meanwhile, and then it is another port.
func listen(ctx context.Context, to consumer.Traces) (receiver.Traces, string, error) {
	for tries := 0; ; tries++ {
		address, err := free()
		if err != nil {
			return nil, "", err
		}
		factory := otlpreceiver.NewFactory()
		config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
		config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
		r, err := factory.CreateTraces(ctx, receivertest.NewNopSettings(factory.Type()), config, to)
		if err != nil {
			return nil, "", err
		}
		err = r.Start(ctx, componenttest.NewNopHost())
		if err == nil {
			return r, address, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || tries == 10 {
			return nil, "", err
		}
	}
}

func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// file prints a file's batches.
func file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	out := &printer{out: os.Stdout}
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		} else if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		batch, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		if err != nil {
			return err
		}
		if err := out.ConsumeTraces(context.Background(), batch); err != nil {
			return err
		}
	}
}
