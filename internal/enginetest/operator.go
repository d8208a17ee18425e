package enginetest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// Operator signs an account of servers that take users by credentials files.
type Operator struct {
	Config string // lines for Start

	t       testing.TB
	account nkeys.KeyPair
}

// NewOperator makes an operator with one account.
func NewOperator(t testing.TB) *Operator {
	t.Helper()
	pair := func(pair nkeys.KeyPair, err error) (nkeys.KeyPair, string) {
		public := ""
		if err == nil {
			public, err = pair.PublicKey()
		}
		if err != nil {
			t.Fatal(err)
		}
		return pair, public
	}
	operator, operatorID := pair(nkeys.CreateOperator())
	_, systemID := pair(nkeys.CreateAccount())
	account, accountID := pair(nkeys.CreateAccount())
	sign := func(c interface {
		Encode(nkeys.KeyPair) (string, error)
	},
	) string {
		text, err := c.Encode(operator)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	claims := jwt.NewAccountClaims(accountID)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	return &Operator{t: t, account: account, Config: fmt.Sprintf(
		"operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {%s: %s, %s: %s} # instead of accounts:\n",
		sign(jwt.NewOperatorClaims(operatorID)), systemID,
		systemID, sign(jwt.NewAccountClaims(systemID)), accountID, sign(claims))}
}

// Write writes a credentials file of a new user of the account, whom the servers take until then.
func (o *Operator) Write(file string, until time.Time) {
	o.t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		o.t.Fatal(err)
	}
	id, err := user.PublicKey()
	if err != nil {
		o.t.Fatal(err)
	}
	c := jwt.NewUserClaims(id)
	c.Expires = until.Unix()
	signed, err := c.Encode(o.account)
	if err != nil {
		o.t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		o.t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(signed, seed)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		o.t.Fatal(err)
	}
}
