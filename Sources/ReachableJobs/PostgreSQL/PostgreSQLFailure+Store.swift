#if PostgreSQL
extension PostgreSQLFailure {
    /// Returns the error of a store at `address`, as ``PostgreSQLConnection/address(of:)`` writes it.
    func storeError(for address: String) -> JobStoreError {
        switch kind {
        case .server(let state):
            return serverError(state, address)
        case .connect, .lost:
            if let sqlstate, let error = connectionError(sqlstate, address) { return error }
            if kind == .connect {
                return JobStoreError(
                    .unavailable, "cannot connect to PostgreSQL at \(address): \(message)",
                    next: "check that the server runs and that this machine can reach it")
            }
            return JobStoreError(
                .unavailable, "lost the connection to PostgreSQL at \(address): \(message)",
                next: "check the server and the network; the job store connects again by itself")
        case .local:
            return JobStoreError(
                .unavailable, "no connection to PostgreSQL at \(address): \(message)",
                next: "check the limits of open files, threads and memory of this process")
        case .invalid:
            return JobStoreError(
                .inputOutput, "PostgreSQL at \(address) cannot take a value: \(message)",
                next: "change the value; nothing was sent")
        }
    }

    /// Returns the error of a code that concerns the connection, or `nil`.
    private func connectionError(_ state: String, _ address: String) -> JobStoreError? {
        let advice: String
        switch state {
        case _ where state.hasPrefix("28"):
            advice = "check the user name, the password file (~/.pgpass, mode 0600) and the server's pg_hba.conf"
        case "3D000": advice = "create the database, or name another one in the connection string"
        case "53300": advice = "raise max_connections of the server, or run fewer workers"
        case "57P01", "57P02", "57P03": advice = "wait until the server has started; the job store connects again by itself"
        case _ where state.hasPrefix("08"): advice = "check the server's log and the network between this machine and the server"
        default: return nil
        }
        return JobStoreError(.unavailable, "PostgreSQL at \(address) refuses the connection: \(message)", next: advice)
    }

    private func serverError(_ state: String, _ address: String) -> JobStoreError {
        if let error = connectionError(state, address) { return error }
        let subject = "PostgreSQL at \(address)"
        switch state {
        // The store's own codes.
        case "RE001":
            return JobStoreError(.tooLarge, message, next: "store it in a file, and push the file's name")
        case "RE002":
            return JobStoreError(.full, message, next: JobStoreError.full(queue: "", limit: 0).advice)
        case "RE003":
            return JobStoreError(.newerSchema, message, next: "update this program")
        case "RE005":
            return JobStoreError(.foreign, message, next: "install it with PostgreSQLStore.install(), or run install.sql")
        case "53100":
            return JobStoreError(
                .diskFull, "no space is left for \(subject): \(message)",
                next: "free some space on the server; nothing that was stored is lost")
        case "25006":
            return JobStoreError(
                .readOnly, "\(subject) is read-only: \(message)",
                next: "connect to the primary server (target_session_attrs=read-write), and check default_transaction_read_only")
        case "42501":
            return JobStoreError(
                .readOnly, "\(subject) denies the access: \(message)",
                next: "grant the role of the connection access to the tables and functions of the job store")
        case "40001", "40P01", "55P03":
            return JobStoreError(
                .busy, "another transaction holds up \(subject): \(message)",
                next: "try again; find the other transaction in pg_stat_activity")
        case "XX001", "XX002":
            return JobStoreError(
                .corrupt, "the database of \(subject) is damaged: \(message)",
                next: "stop its workers, keep a copy of the server's data, and restore a backup")
        case "42P01", "42883":
            return JobStoreError(
                .foreign, "the database of \(subject) has no tables of jobs: \(message)",
                next: "let the program that adds jobs install them, or run install.sql; or check search_path")
        case _ where state.hasPrefix("58"):
            return JobStoreError(
                .inputOutput, "reading or writing failed on the machine of \(subject): \(message)",
                next: "check the server's disk and log; the change was not made")
        default:
            return JobStoreError(
                .inputOutput, "\(subject) refused a statement with the code \(state): \(message)",
                next: "check the server's log; the change was not made")
        }
    }
}
#endif
