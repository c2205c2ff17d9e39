// SwiftPM asks every C target for a public header; this one has nothing to offer.
