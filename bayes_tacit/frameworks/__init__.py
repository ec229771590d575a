"""The gateway's engine inside agent frameworks, one file each; each needs the extra that its file names."""
