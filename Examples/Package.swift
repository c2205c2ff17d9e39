// swift-tools-version: 6.2
import PackageDescription

// Programs that embed the libraries as any other package would: they use only the public API.

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let serviceLifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let unixSignals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")

func library(_ name: String) -> Target.Dependency { .product(name: name, package: "swift-reachability") }

let package = Package(
    name: "swift-reachability-examples",
    dependencies: [
        .package(name: "swift-reachability", path: "..", traits: ["MQTT", "PostgreSQL", "ServiceLifecycle", "SQLite"]),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // The code of the guide "Offline-first in ten minutes" of ReachableJobs.
        .executableTarget(
            name: "notes",
            dependencies: [
                library("Reachability"), library("ReachableRetry"), library("ReachableHTTP"), library("ReachableJobs"), grdb,
                logging, serviceLifecycle, unixSignals,
            ]),
        // The code of the guide "One queue, many machines", and its tests.
        .executableTarget(
            name: "orders",
            dependencies: [
                library("Reachability"), library("ReachableRetry"), library("ReachableHTTP"), library("ReachableJobs"), logging,
                serviceLifecycle, unixSignals,
            ],
            exclude: ["SQL"]),
        // Its first sources are links to those of the program.
        .testTarget(
            name: "OrdersTests",
            dependencies: [
                library("Reachability"), library("ReachableRetry"), library("ReachableHTTP"), library("ReachableJobs"),
                library("ReachabilityTesting"),
            ]),
        // The code of the guide "Start when the NAS is awake", and its test.
        .executableTarget(
            name: "nas-backup",
            dependencies: [
                library("Reachability"), library("ReachableRetry"), library("ReachableHTTP"), library("ReachableJobs"),
                library("ReachableFleet"), logging, serviceLifecycle, unixSignals,
            ]),
        .testTarget(
            name: "NASBackupTests",
            dependencies: [
                library("Reachability"), library("ReachableRetry"), library("ReachableHTTP"), library("ReachableJobs"),
                library("ReachableFleet"), library("ReachabilityTesting"),
            ]),
        // The code of the guide "A thousand kiosks".
        .executableTarget(
            name: "kiosks",
            dependencies: [
                library("Reachability"), library("ReachableRetry"), library("ReachableHTTP"), library("ReachableFleet"),
                logging, serviceLifecycle, unixSignals,
            ]),
        // A service that uploads the files of a directory.
        .executableTarget(
            name: "uploader",
            dependencies: [
                library("Reachability"), library("ReachableRetry"), library("ReachableHTTP"), library("ReachableJobs"),
                argumentParser, logging, serviceLifecycle, unixSignals,
            ]),
        // A library that stores photos on a server, without files or HTTP; its tests; and a command that uses it.
        .target(
            name: "SyncEngine", dependencies: [library("Reachability"), library("ReachableRetry"), library("ReachableJobs")]),
        .testTarget(
            name: "SyncEngineTests",
            dependencies: [
                "SyncEngine", library("Reachability"), library("ReachableRetry"), library("ReachableJobs"),
                library("ReachabilityTesting"),
            ]),
        .executableTarget(
            name: "photo-sync",
            dependencies: [
                "SyncEngine", library("Reachability"), library("ReachableRetry"), library("ReachableHTTP"),
                library("ReachableJobs"), argumentParser, grdb,
            ]),
        // A server to try them with. Its sources are links to the tests of the package above.
        .executableTarget(name: "inbox", dependencies: ["MisbehavingServer", argumentParser]),
        .target(name: "MisbehavingServer"),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
}
