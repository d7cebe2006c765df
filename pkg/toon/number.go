package toon

import (
	"strconv"
	"strings"
)

// maxExponent is how far from 1 a number may be, in powers of ten.
const maxExponent = 1_000_000_000_000_000

// Numbers from 1e-6 to below 1e21 are written without an exponent.
const (
	lowestPlain  = -6
	highestPlain = 20
)

// canonical returns the one form of a number of JSON's grammar. ok is false when
// it is out of range.
func canonical(s string) (form string, ok bool) {
	s, negative := strings.CutPrefix(s, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	digits := strings.TrimLeft(all, "0")
	exponent := len(whole) - 1 - (len(all) - len(digits)) // of the first digit
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return "0", true
	}
	if power != "" {
		p, err := strconv.Atoi(power)
		if err != nil || p > maxExponent || p < -maxExponent {
			return "", false
		}
		exponent += p
	}
	form = shortest(digits, exponent)
	if negative {
		form = "-" + form
	}
	return form, true
}

// shortest writes the digits, of which the first counts 10^exponent.
func shortest(digits string, exponent int) string {
	if lowestPlain <= exponent && exponent <= highestPlain {
		return plain(digits, exponent)
	}
	form := digits[:1]
	if len(digits) > 1 {
		form += "." + digits[1:]
	}
	sign := "+"
	if exponent < 0 {
		sign = ""
	}
	form += "e" + sign + strconv.Itoa(exponent)
	if exponent > 0 && exponent < len(form) {
		if p := plain(digits, exponent); len(p) < len(form) {
			return p
		}
	}
	return form
}

func plain(digits string, exponent int) string {
	switch whole := exponent + 1; {
	case whole <= 0:
		return "0." + strings.Repeat("0", -whole) + digits
	case whole >= len(digits):
		return digits + strings.Repeat("0", whole-len(digits))
	default:
		return digits[:whole] + "." + digits[whole:]
	}
}

// numeric reports whether s looks like a number, and whether it is one: with a
// zero before other digits it is not.
func numeric(s string) (looks, is bool) {
	rest := strings.TrimPrefix(s, "-")
	whole := countDigits(rest)
	if whole == 0 {
		return false, false
	}
	is = whole == 1 || rest[0] != '0'
	rest = rest[whole:]
	if strings.HasPrefix(rest, ".") {
		n := countDigits(rest[1:])
		if n == 0 {
			return false, false
		}
		rest = rest[1+n:]
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		n := countDigits(rest)
		if n == 0 {
			return false, false
		}
		rest = rest[n:]
	}
	return rest == "", rest == "" && is
}

func countDigits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
