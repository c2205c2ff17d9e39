// swift-tools-version: 6.2
import PackageDescription

let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let metrics = Target.Dependency.product(name: "CoreMetrics", package: "swift-metrics")
// Every target that names one of these has to name it under its trait: otherwise everybody would have to fetch it.
let serviceLifecycle = Target.Dependency.product(
    name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["ServiceLifecycle"]))
let tracing = Target.Dependency.product(
    name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"]))
let asyncHTTPClient = [
    ("AsyncHTTPClient", "async-http-client"), ("NIOCore", "swift-nio"), ("NIOHTTP1", "swift-nio"), ("NIOPosix", "swift-nio"),
    ("NIOSSL", "swift-nio-ssl"),
].map { Target.Dependency.product(name: $0.0, package: $0.1, condition: .when(traits: ["AsyncHTTPClient"])) }
let sqlite = Target.Dependency.product(name: "GRDB", package: "GRDB.swift", condition: .when(traits: ["SQLite"]))
// The columns of rows, which GRDB reads by their names.
let sqliteLibrary = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift", condition: .when(traits: ["SQLite"]))
// Without the trait its header is never included: libpq need not be there.
let postgreSQLLibrary = Target.Dependency.byName(name: "CLibPQ", condition: .when(traits: ["PostgreSQL"]))
// Likewise libmosquitto.
let mqttLibrary = Target.Dependency.byName(name: "CLibMosquitto", condition: .when(traits: ["MQTT"]))
let service = [
    ("Hummingbird", "hummingbird"), ("HTTPTypes", "swift-http-types"), ("NIOCore", "swift-nio"),
    ("NIOHTTPTypes", "swift-nio-extras"), ("NIOPosix", "swift-nio"), ("ServiceLifecycle", "swift-service-lifecycle"),
].map { Target.Dependency.product(name: $0.0, package: $0.1, condition: .when(traits: ["Service"])) }

// `make deb`: the command simulates networks and needs no conformance tests. A linker would keep them: types are found by name.
let isCommandOnly = Context.environment["COMMAND_ONLY"] != nil

let package = Package(
    name: "swift-reachability",
    products: [
        .library(name: "Reachability", targets: ["Reachability"]),
        .library(name: "ReachableRetry", targets: ["ReachableRetry"]),
        .library(name: "ReachableHTTP", targets: ["ReachableHTTP"]),
        .library(name: "ReachableJobs", targets: ["ReachableJobs"]),
        .library(name: "ReachableFleet", targets: ["ReachableFleet"]),
        .library(name: "ReachabilityTesting", targets: ["ReachabilityTesting"]),
        .executable(name: "reachability-watch", targets: ["reachability-watch"]),
        .executable(name: "reachability-service", targets: ["reachability-service"]),
    ],
    traits: [
        .trait(name: "AsyncHTTPClient", description: "Requests of async-http-client are repeated like those of URLSession."),
        .trait(name: "MQTT", description: "Members of a fleet meet at an MQTT broker."),
        .trait(name: "PostgreSQL", description: "Durable jobs are kept in PostgreSQL, shared by many machines."),
        .trait(name: "SQLite", description: "Durable jobs are kept in a SQLite file."),
        .trait(name: "Service", description: "The command serve: a daemon with a page.", enabledTraits: ["SQLite"]),
        .trait(name: "ServiceLifecycle", description: "Monitors and buses are services of swift-service-lifecycle."),
        .trait(name: "Tracing", description: "Jobs are spans of swift-distributed-tracing."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0", traits: []),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.34.1"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0", traits: []),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // A C target cannot name pkg-config itself: this one carries libnl's flags to CNetlink.
        .systemLibrary(
            name: "CLibNL",
            pkgConfig: "libnl-route-3.0",
            providers: [.apt(["libnl-3-dev", "libnl-route-3-dev"]), .yum(["libnl3-devel"])]
        ),
        .target(name: "CNetlink", dependencies: ["CLibNL"]),
        // Debian's libpq.pc adds nothing but a folder of headers, and where it is missing SwiftPM would warn everybody.
        .systemLibrary(name: "CLibPQ", providers: [.apt(["libpq-dev"]), .yum(["libpq-devel"])]),
        .systemLibrary(name: "CLibMosquitto", providers: [.apt(["libmosquitto-dev"]), .yum(["mosquitto-devel"])]),
        .target(
            name: "Reachability",
            dependencies: [
                "CNetlink", .product(name: "DequeModule", package: "swift-collections"), logging, metrics, serviceLifecycle,
            ]
        ),
        .target(
            name: "ReachableRetry",
            dependencies: [
                "Reachability", .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"), logging, metrics, tracing, serviceLifecycle,
            ]
        ),
        .target(name: "ReachableHTTP", dependencies: ["Reachability", "ReachableRetry", "ReachableJobs"] + asyncHTTPClient),
        .target(
            name: "ReachableJobs",
            dependencies: [
                "Reachability", "ReachableRetry", .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"), logging, metrics, tracing, serviceLifecycle, sqlite,
                sqliteLibrary, postgreSQLLibrary,
                .byName(name: "PostgreSQLSchema", condition: .when(traits: ["PostgreSQL"])),
            ]
        ),
        // The tables and functions of the store, also for database administrators.
        .target(name: "PostgreSQLSchema", resources: [.embedInCode("SQL")]),
        .target(
            name: "ReachableFleet",
            dependencies: [
                "Reachability", "ReachableRetry", .product(name: "DequeModule", package: "swift-collections"), logging,
                serviceLifecycle, mqttLibrary,
            ]),
        .target(
            name: "ReachabilityTesting",
            dependencies: [
                "Reachability", "ReachableRetry", "ReachableJobs", "ReachableFleet",
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            exclude: isCommandOnly ? ["Conformance", "Fleet"] : []),
        // What the package's own tests share.
        .target(name: "TestSupport", dependencies: ["Reachability", "ReachabilityTesting"], path: "Tests/TestSupport"),
        .target(name: "CProcess"),
        // The parts that both commands share.
        .target(
            name: "CommandKit",
            dependencies: [
                "CProcess", "Reachability", "ReachableRetry", .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .executableTarget(
            name: "reachability-watch",
            dependencies: [
                "CommandKit", "Reachability", "ReachableRetry", "ReachabilityTesting",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .executableTarget(
            name: "reachability-service",
            dependencies: [
                "CommandKit", "CProcess", "Reachability", "ReachableRetry", "ReachableJobs", "ReachableFleet",
                .product(name: "ArgumentParser", package: "swift-argument-parser"), logging, sqlite,
            ] + service,
            resources: [.embedInCode("Serve/Page")]
        ),
        .testTarget(
            name: "ReachabilityTestingTests",
            dependencies: ["Reachability", "ReachableRetry", "ReachabilityTesting", "TestSupport"]),
        .testTarget(
            name: "ReachabilityTests", dependencies: ["Reachability", "ReachabilityTesting", "TestSupport"],
            exclude: ["Recording/Fixtures"]),
        .testTarget(
            name: "ReachableRetryTests",
            dependencies: ["ReachableRetry", "ReachabilityTesting", "TestSupport", "StateExploration"]),
        .testTarget(
            name: "ReachableJobsTests",
            dependencies: [
                "Reachability", "ReachableRetry", "ReachableHTTP", "ReachableJobs", "ReachabilityTesting", "TestSupport",
                "StateExploration", "jobs-probe", sqlite,
                .byName(name: "PostgreSQLSchema", condition: .when(traits: ["PostgreSQL"])),
                .byName(name: "CRecordingVFS", condition: .when(traits: ["SQLite"])),
            ],
            exclude: ["PostgreSQL/Fixtures", "SQLite/Fixtures"]),
        .testTarget(
            name: "ReachableFleetTests",
            dependencies: [
                "Reachability", "ReachableFleet", "ReachableRetry", "ReachabilityTesting", "TestSupport", "StateExploration",
                "fleet-probe",
            ]),
        // A member of a fleet that tests kill.
        .executableTarget(
            name: "fleet-probe",
            dependencies: ["Reachability", "ReachabilityTesting", "ReachableFleet", "ReachableRetry", logging],
            path: "Tests/FleetProbe"),
        // Empty without the trait: every target of the package is built, and libsqlite3 need not be there.
        .target(
            name: "CRecordingVFS", path: "Tests/CRecordingVFS",
            cSettings: [.define("RECORDS_SQLITE", .when(traits: ["SQLite"]))]),
        .target(name: "StateExploration", dependencies: ["TestSupport"], path: "Tests/StateExploration"),
        // A worker that tests kill.
        .executableTarget(
            name: "jobs-probe", dependencies: ["Reachability", "ReachabilityTesting", "ReachableJobs", "ReachableRetry"],
            path: "Tests/JobsProbe"),
        .testTarget(
            name: "ReachableHTTPTests",
            dependencies: [
                "ReachableHTTP", "ReachableJobs", "ReachabilityTesting", "TestSupport", "MisbehavingServer", "http-probe",
            ] + asyncHTTPClient),
        .testTarget(
            name: "InstrumentTests",
            dependencies: [
                "Reachability", "ReachableRetry", "ReachableJobs", "ReachabilityTesting", "TestSupport", logging, metrics, tracing,
                serviceLifecycle, .product(name: "InMemoryLogging", package: "swift-log"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
                .product(
                    name: "InMemoryTracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
                .product(
                    name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle",
                    condition: .when(traits: ["ServiceLifecycle"])),
            ]
        ),
        .testTarget(name: "CNetlinkTests", dependencies: ["CNetlink", "CSandbox", "TestSupport"], exclude: ["Fixtures"]),
        .testTarget(
            name: "NamespaceTests",
            dependencies: [
                "Reachability", "ReachabilityTesting", "TestSupport", "reachability-watch", "CommandKit", "CSandbox",
                "MisbehavingServer", "http-probe",
            ]
        ),
        .target(name: "CSandbox", path: "Tests/CSandbox"),
        .target(name: "MisbehavingServer", path: "Tests/MisbehavingServer"),
        // Requests from within a network namespace: Foundation's threads are born where the process is.
        .executableTarget(
            name: "http-probe",
            dependencies: ["Reachability", "ReachableHTTP", "ReachableJobs", "ReachableRetry"] + asyncHTTPClient,
            path: "Tests/HTTPProbe"),
        .testTarget(
            name: "ReachabilityWatchTests",
            dependencies: [
                "reachability-watch", "CommandKit", "ReachabilityTesting", "TestSupport", "ReachableRetry",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .testTarget(
            name: "ReachabilityServiceTests",
            dependencies: [
                "Reachability", "reachability-service", "reachability-watch", "CommandKit", "ReachableFleet", "ReachableJobs",
                "ReachableRetry", "ReachabilityTesting", "TestSupport", "CSandbox",
                .product(name: "ArgumentParser", package: "swift-argument-parser"), sqlite,
            ],
            exclude: ["Report/Fixtures"]
        ),
        // The corpora of the fuzzers, which are a package of their own.
        .testTarget(
            name: "FuzzingTests",
            dependencies: ["Reachability", "ReachableRetry", "reachability-watch", "CommandKit"],
            path: "Fuzzing/Checks"
        ),
        // These two compile only while no libnl declaration is visible: through cnetlink.h, and through the Swift imports.
        .target(name: "LibNLHeaderCanary", dependencies: ["CNetlink"], path: "Tests/LibNLHeaderCanary"),
        .target(name: "LibNLCanary", dependencies: ["CNetlink", "Reachability"], path: "Tests/LibNLCanary"),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .gnu11
)

// Documentation shows everything, and some want to build everything.
if ["SPI_GENERATE_DOCS", "ENABLE_ALL_TRAITS"].contains(where: { Context.environment[$0] != nil }) {
    package.traits.insert(.default(enabledTraits: Set(package.traits.map(\.name))))
}

for target in package.targets where target.type != .system {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
}
