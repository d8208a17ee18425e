package demo

import (
	"fmt"
	"io"
)

// Place is where the demo runs.
type Place struct {
	Console, API, Dir string
	Key               string // of the dataset shop
	Program           string // how the reader calls this program
}

// Introduce says what there is to see.
func Introduce(w io.Writer, p Place) {
	fmt.Fprintf(w, `
  Sluice is running.

  Console         %[2]s
  Senders' API    %[1]s
  Documentation   %[1]s/docs
  Data            %[3]s

  Three datasets have a history. Look at them in the console:

    shop      is well: see its page, and Campaigns
    travel    has most of its events rejected, for some days: see Diagnosis
    outlet    has been silent for longer than usual: see the alarms

  To send events yourself, paste these two lines into another terminal:

    export SLUICE_URL=%[1]s
    export SLUICE_API_KEY=%[4]s

  Then send one. The examples of the README and of the documentation use the same dataset, shop:

    curl -s $SLUICE_URL/v1/events \
      -H "Authorization: Bearer $SLUICE_API_KEY" \
      -H 'Content-Type: application/json' \
      -d '{"data_set_id":"shop","timestamp":'$(date +%%s)',"event_type":"sign_up",
           "identifiers":{"email_sha256":"'$(printf %%s you@example.com | sha256sum | cut -c1-64)'"}}'

  A few seconds later, read what is stored:

    %[5]s export --data %[3]s

  More events follow. Press Ctrl-C to stop.

`, p.API, p.Console, p.Dir, p.Key, p.Program)
}

// Farewell says what is left of the demo, and what to do next.
func Farewell(w io.Writer, dir, program string, deleted bool) {
	if deleted {
		fmt.Fprintf(w, `
  The demo has ended. It deleted %[1]s, with all events and keys in it.

  To run a service that keeps its data, in ./sluice-data:

    %[2]s serve
    %[2]s dataset create shop

`, dir, program)
		return
	}
	fmt.Fprintf(w, `
  The demo has ended. Its events and keys stay in %[1]s.

  To serve them:

    %[2]s serve --data %[1]s

`, dir, program)
}
