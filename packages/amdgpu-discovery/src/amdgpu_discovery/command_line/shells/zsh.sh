
_amd_ctk_completion() {
    local kind=
    local -a below flags offers
    if ! _amd_ctk_find amd-ctk "${(@)words[2,CURRENT]}"; then
        eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _AMD_CTK_COMPLETE=complete_zsh amd-ctk)
    elif ((! ${#offers[@]})); then
        _files
    elif [[ ${words[CURRENT]} == -* ]]; then
        _describe -o option offers
    else
        _describe command offers
    fi
}

# A file of a completion directory is itself called at the first TAB; sourced, it says what it completes.
if [[ ${funcstack[1]} == _amd-ctk ]]; then
    _amd_ctk_completion "$@"
else
    compdef _amd_ctk_completion amd-ctk
fi
