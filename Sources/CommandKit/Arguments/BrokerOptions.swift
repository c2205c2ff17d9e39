package import ArgumentParser

/// The options that name a fleet's site and broker; the environment has values for those that are not given.
///
/// Both programs parse them, and only `reachability-service` connects.
package struct BrokerOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The broker: mqtts://host[:port] with TLS, mqtt://host[:port] without. Default: $REACHABILITY_FLEET_BROKER.",
            valueName: "url"))
    package var broker: String?

    @Option(
        help: ArgumentHelp(
            "The site: the name of the group of machines that see each other. Default: $REACHABILITY_FLEET_SITE.",
            valueName: "name"))
    package var site: String?

    @Option(help: ArgumentHelp("Log in with this name. Default: $REACHABILITY_FLEET_USER.", valueName: "name"))
    package var brokerUser: String?

    @Option(
        help: ArgumentHelp(
            "Log in with the first line of this file. Default: $REACHABILITY_FLEET_PASSWORD_FILE.", valueName: "path"),
        completion: .file())
    package var brokerPasswordFile: String?

    @Option(
        help: ArgumentHelp(
            "Trust the authorities in this file, in PEM. Default: $REACHABILITY_FLEET_CA, or the system's.", valueName: "path"),
        completion: .file())
    package var brokerCa: String?

    @Option(
        help: ArgumentHelp(
            "Show the broker this certificate, in PEM. Default: $REACHABILITY_FLEET_CERTIFICATE.", valueName: "path"),
        completion: .file())
    package var brokerCertificate: String?

    @Option(
        help: ArgumentHelp("The key of that certificate, in PEM. Default: $REACHABILITY_FLEET_KEY.", valueName: "path"),
        completion: .file())
    package var brokerKey: String?

    /// Creates it, for the parser.
    package init() {}

    /// The options that were given.
    package var given: [String] {
        [
            ("--broker", broker), ("--site", site), ("--broker-user", brokerUser), ("--broker-password-file", brokerPasswordFile),
            ("--broker-ca", brokerCa), ("--broker-certificate", brokerCertificate), ("--broker-key", brokerKey),
        ].filter { $1 != nil }.map(\.0)
    }

    /// Returns the values of the options, and of the environment for those that are not given.
    ///
    /// - Parameter environment: Returns the value of a variable; an empty one counts as none.
    package func settings(_ environment: (String) -> String?) -> BrokerSettings {
        func value(_ option: String?, _ name: String) -> String? {
            option ?? environment("REACHABILITY_FLEET_\(name)").flatMap { $0.isEmpty ? nil : $0 }
        }
        return BrokerSettings(
            broker: value(broker, "BROKER"), site: value(site, "SITE"), user: value(brokerUser, "USER"),
            passwordFile: value(brokerPasswordFile, "PASSWORD_FILE"), caFile: value(brokerCa, "CA"),
            certificateFile: value(brokerCertificate, "CERTIFICATE"), keyFile: value(brokerKey, "KEY"))
    }
}

/// The values of ``BrokerOptions``, not judged yet.
package struct BrokerSettings: Hashable, Sendable {
    package var broker: String?
    package var site: String?
    package var user: String?
    package var passwordFile: String?
    package var caFile: String?
    package var certificateFile: String?
    package var keyFile: String?
}
